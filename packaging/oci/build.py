#!/usr/bin/env python3
"""Makes an OCI image of a binary without libraries, as an archive that podman and docker load:

    build.py BINARY SHELL CERTIFICATES OUT

SHELL is a static busybox, which runs container-entry; CERTIFICATES is a PEM file of the authorities that
upstreams are checked with. Nothing is downloaded. The same input makes the same archive. Source: OCI image
format specification 1.0.
"""
import gzip
import hashlib
import io
import json
import os
import platform
import sys
import tarfile
from datetime import datetime, timezone
from pathlib import Path

binary, shell, certificates, out = map(Path, sys.argv[1:5])
root = Path(__file__).resolve().parents[2]
version = next(l.split('"')[1] for l in (root / "Cargo.toml").read_text().splitlines() if l.startswith("version"))
USER = 950
WHEN = int(os.environ.get("SOURCE_DATE_EPOCH", "0"))
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
machine = os.environ.get("OCI_MACHINE", platform.machine())


def entry(name, mode, owner=0, kind=tarfile.REGTYPE, data=b"", link=""):
    """One file of a layer."""
    info = tarfile.TarInfo(name)
    info.mode, info.uid, info.gid, info.type, info.linkname = mode, owner, owner, kind, link
    info.size, info.mtime = len(data), WHEN
    return info, data


def tar(entries):
    """The bytes of a tar file."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for info, data in entries:
            archive.addfile(info, io.BytesIO(data))
    return buffer.getvalue()


def folder(name, mode=0o755, owner=0):
    return entry(name, mode, owner, tarfile.DIRTYPE)


passwd = f"root:x:0:0:root:/:/bin/sh\nnewsreel:x:{USER}:{USER}:newsreel:/var/lib/newsreel:/bin/sh\n"
layer = tar(
    [folder(name) for name in ("bin", "etc", "etc/ssl", "etc/ssl/certs", "usr", "usr/bin", "usr/libexec")]
    + [folder("usr/libexec/newsreel"), folder("var"), folder("var/lib"), folder("tmp", 0o1777)]
    + [folder("var/lib/newsreel", 0o750, USER)]
    + [entry("bin/busybox", 0o755, data=shell.read_bytes())]
    + [entry(f"bin/{name}", 0o777, kind=tarfile.SYMTYPE, link="busybox") for name in ("cat", "ls", "sh", "vi")]
    + [
        entry("etc/passwd", 0o644, data=passwd.encode()),
        entry("etc/group", 0o644, data=f"root:x:0:\nnewsreel:x:{USER}:\n".encode()),
        entry("etc/ssl/certs/ca-certificates.crt", 0o644, data=certificates.read_bytes()),
        entry("usr/bin/newsreel", 0o755, data=binary.read_bytes()),
        entry(
            "usr/libexec/newsreel/container-entry",
            0o755,
            data=(root / "packaging/container-entry").read_bytes(),
        ),
    ]
)
packed = gzip.compress(layer, mtime=0)
blobs = {}


def blob(data, kind, **more):
    """Adds a blob; returns its descriptor."""
    digest = hashlib.sha256(data).hexdigest()
    blobs[f"blobs/sha256/{digest}"] = data
    return {"mediaType": f"application/vnd.oci.image.{kind}", "digest": f"sha256:{digest}", "size": len(data), **more}


def text(value):
    return json.dumps(value, indent=1, sort_keys=True).encode()


config = {
    "created": datetime.fromtimestamp(WHEN, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
    "architecture": ARCHITECTURES[machine],
    "os": "linux",
    "config": {
        "User": f"{USER}:{USER}",
        "Env": ["PATH=/usr/bin:/bin", "NEWSREEL_CONFIG=/var/lib/newsreel/newsreel.toml"],
        "Entrypoint": ["/usr/libexec/newsreel/container-entry"],
        "ExposedPorts": {"1119/tcp": {}, "8119/tcp": {}},
        "Volumes": {"/var/lib/newsreel": {}},
        "WorkingDir": "/var/lib/newsreel",
        "StopSignal": "SIGTERM",
        "Labels": {"org.opencontainers.image.version": version, "org.opencontainers.image.title": "newsreel"},
    },
    "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(layer).hexdigest()}"]},
    "history": [{"created_by": "packaging/oci/build.py"}],
}
manifest = {
    "schemaVersion": 2,
    "mediaType": "application/vnd.oci.image.manifest.v1+json",
    "config": blob(text(config), "config.v1+json"),
    "layers": [blob(packed, "layer.v1.tar+gzip")],
}
names = {"org.opencontainers.image.ref.name": "latest", "io.containerd.image.name": "localhost/newsreel:latest"}
index = {"schemaVersion": 2, "manifests": [blob(text(manifest), "manifest.v1+json", annotations=names)]}
files = {"oci-layout": text({"imageLayoutVersion": "1.0.0"}), "index.json": text(index), **blobs}
out.write_bytes(
    tar([folder("blobs"), folder("blobs/sha256")] + [entry(name, 0o644, data=data) for name, data in files.items()])
)
print(out)
