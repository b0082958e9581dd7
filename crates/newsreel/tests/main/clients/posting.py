"""Posts an article and sends another by IHAVE with nntplib, and reads both at once on another connection.

posting.py PORT post GROUP: prints the two Message-IDs. posting.py PORT read ID...: reads them again.
"""

import nntplib
import sys

BODY = [b"Written in Python.", b".", b"..two", b"", "Gr\u00fc\u00dfe".encode(), b"end"]


def article(group, *more):
    head = ["From: Ann Author <ann@x.example>", f"Newsgroups: {group}", "Subject: From nntplib", *more, ""]
    return [line.encode() for line in head] + BODY


def connect(port):
    return nntplib.NNTP("127.0.0.1", port, timeout=20)


def post(port, group):
    with connect(port) as reader, connect(port) as server:
        before = reader.group(group)[1]
        posted = server.post(article(group)).split()[-1]
        assert posted.startswith("<"), posted
        _, count, _, last, _ = reader.group(group)
        assert count == before + 1, (before, count)
        assert reader.body(last)[1].lines == BODY
        fed = "<ihave.1@x.example>"
        path = ("Path: peer.example!not-for-mail", "Date: 15 Apr 1993 12:00:00 GMT", f"Message-ID: {fed}")
        assert server.ihave(fed, article(group, *path)).startswith("235 ")
        try:
            server.ihave(fed, article(group, *path))
        except nntplib.NNTPTemporaryError as error:
            assert error.response.startswith("435 "), error.response
        else:
            raise AssertionError("taken twice")
        try:
            server.post([b"Subject: nothing else", b"", b"x"])
        except nntplib.NNTPTemporaryError as error:
            assert error.response.startswith("441 "), error.response
        else:
            raise AssertionError("posted without From and Newsgroups")
    print(posted, fed)


def read(port, ids):
    with connect(port) as server:
        for key in ids:
            assert server.body(key)[1].lines == BODY, key


if sys.argv[2] == "post":
    post(int(sys.argv[1]), sys.argv[3])
else:
    read(int(sys.argv[1]), sys.argv[3:])
