#!/bin/sh
# Makes an RPM of what `make build` made, with rpmbuild:
#   build.sh BINARY SHARE DIR    writes DIR/newsreel-VERSION-1.ARCHITECTURE.rpm and prints its name.
# `make rpm` calls it. The package does what Debian's does, except that the server is not started.
set -eu

binary=$1 share=$2 out=$3
root=$(cd "$(dirname "$0")/../.." && pwd)
version=$(sed -n 's/^version = "\(.*\)"/\1/p' "$root/Cargo.toml" | head -n 1)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

"$root/packaging/stage.sh" "$binary" "$share" "$work/stage"
rpmbuild -bb --quiet --define "_topdir $work/rpmbuild" --define "staged $work/stage" \
  --define "news_version $version" --define "_rpmdir $out" --define "_build_name_fmt %%{NAME}-%%{VERSION}-%%{RELEASE}.%%{ARCH}.rpm" \
  --define "use_source_date_epoch_as_buildtime 1" --define "clamp_mtime_to_source_date_epoch 1" \
  --define "_buildhost newsreel" "$root/packaging/rpm/newsreel.spec" >&2
echo "$out/newsreel-$version-1.$(rpm --eval '%{_arch}').rpm"
