#!/bin/sh
# Makes a tarball of a binary without libraries and what belongs to it, for /usr/local:
#   tarball.sh BINARY SHARE DIR MACHINE    writes DIR/newsreel-VERSION-linux-MACHINE.tar.xz and prints its name.
# To install: tar -xf FILE --strip-components=1 -C /usr/local
set -eu

binary=$1 share=$2 out=$3 machine=$4
root=$(cd "$(dirname "$0")/.." && pwd)
version=$(sed -n 's/^version = "\(.*\)"/\1/p' "$root/Cargo.toml" | head -n 1)
name=newsreel-$version-linux-$machine
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

"$root/packaging/stage.sh" "$binary" "$share" "$work" /usr/local
mv "$work/usr/local" "$work/$name"
tar -C "$work" --sort=name --owner=0 --group=0 --numeric-owner --mtime="@${SOURCE_DATE_EPOCH:-$(date +%s)}" \
  -cf - "$name" | xz -T0 "-${TARBALL_XZ:-6}" > "$out/$name.tar.xz"
echo "$out/$name.tar.xz"
