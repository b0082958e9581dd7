#!/usr/bin/env python3
"""Compares a site's groups and articles with what an older version answered: old-site.py EXPECTED PORT

EXPECTED is that file of a fixture; crates/spool/tests/fixtures/make.py describes it.
"""
import hashlib
import socket
import sys

# Numbers that a group may have promised beyond those that it gave, as crates/spool/tests/unpack.rs has them.
PROMISED = 2048

expected, port = open(sys.argv[1]).read().splitlines(), int(sys.argv[2])
connection = socket.create_connection(("127.0.0.1", port), timeout=60)
answers = connection.makefile("rb")


def ask(command, code):
    """Returns the line that answers a command, which must have a code."""
    connection.sendall(f"{command}\r\n".encode())
    line = answers.readline().decode()
    assert line.startswith(code), f"{command}: {line}"
    return line


def block():
    """Returns the lines that follow, as they come."""
    return b"".join(iter(answers.readline, b".\r\n"))


answers.readline()
articles = 0
for line in expected:
    kind, name, *fields = line.split(" ")
    answer = ask(f"GROUP {name}", "211")
    if kind == "group":
        # A crash may have kept numbers back: no later mark is lower, or much higher.
        assert 0 <= int(answer.split()[3]) - int(fields[0]) <= PROMISED, f"{line}: {answer}"
        continue
    number, message_id, digest = fields
    ask(f"OVER {number}", "224")
    row = block().removesuffix(b"\r\n")
    ask(f"ARTICLE {number}", f"220 {number} {message_id}")
    assert hashlib.md5(row + block()).hexdigest()[:8] == digest, line
    articles += 1
assert articles > 200, articles
print(f"{articles} articles as they were")
