#!/bin/bash
# Copies Open MPI of this machine into a folder from which it runs elsewhere, on
# one machine: FOLDER/mpirun -n 2 PROGRAM. Fabrics and schedulers stay out.
set -euo pipefail
[ $# -eq 1 ] || { echo "usage: bundle_mpi.sh FOLDER" >&2 && exit 2; }
folder=$1

fail() { echo "bundle_mpi.sh: error: $*" >&2 && exit 1; }
place() { ompi_info --path "$1" --parsable 2>/dev/null | cut -d: -f3; }
command -v ompi_info > /dev/null || fail "Open MPI is not installed"
case $(ompi_info --version | head -1) in
*" v4."*) ;;
*) fail "expected Open MPI 4, found $(ompi_info --version | head -1)" ;;
esac
components=$(place pkglibdir)

mkdir -p "$folder"/{bin,lib,components,pmix}
install -s "$(readlink -f "$(command -v orterun)")" "$folder/bin/mpirun"
cp -r "$(place pkgdatadir)" "$folder/share"
cp -r "$(place sysconfdir)" "$folder/etc"
# The external PMIx has components of its own.
pmix=$(ldd "$components"/mca_pmix_ext3x.so |
  awk '$1 ~ /^libpmix/ { print $3 }')
[ -z "$pmix" ] || cp "$(dirname "$(readlink -f "$pmix")")"/pmix/*.so \
  "$folder/pmix/" 2> /dev/null || true

# A component counts that needs nothing beyond what MPI itself does.
known='^(libmpi|libopen-rte|libopen-pal|libhwloc|libevent|libpmix|libmunge|libz|libudev)'
system='^(libc|libm|libdl|librt|libpthread|libutil|libgcc_s|libstdc\+\+)\.so'
needs() { ldd "$1" | awk '$2 == "=>" { print $1, $3 }'; }
for component in "$components"/*.so; do
  needs "$component" | cut -d' ' -f1 | grep -Evq "$known|$system" ||
    install -s "$component" "$folder/components/"
done
for file in "$folder"/bin/mpirun "$folder"/components/*.so; do
  needs "$file"
done | sort -u | while read -r name path; do
  [[ $name =~ $system ]] || cp -L "$path" "$folder/lib/$name"
done

cat > "$folder/mpirun" <<'END'
#!/bin/bash
here=$(cd "$(dirname "$0")" && pwd)
export LD_LIBRARY_PATH=$here/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export OPAL_PKGLIBDIR=$here/components OPAL_PKGDATADIR=$here/share
export OPAL_SYSCONFDIR=$here/etc OPAL_BINDIR=$here/bin
export OMPI_MCA_mca_base_component_path=$here/components
export PMIX_MCA_mca_base_component_path=$here/pmix
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_plm=isolated
exec "$here/bin/mpirun" "$@"
END
chmod +x "$folder/mpirun"
