//! The inputs that the smoke run begins with: for each kind, some that are as they should be.

use nntp_io::fuzzing::deflate_in_pieces;
use std::fs;
use std::path::Path;

const ARTICLE: &str = "Path: a.example!b.example!not-for-mail\r\nFrom: Joe Q. Public <joe@example.org>\r\n\
    Newsgroups: misc.test,local.moderated\r\nSubject: Re: a folded\r\n subject\r\n\
    Date: Thu, 01 Jan 2026 12:00:00 +0100\r\nMessage-ID: <one$1@example.org>\r\n\
    References: <zero@example.org>\r\n\t<half@example.org>\r\nApproved: mod@example.org\r\n\
    Distribution: world,local\r\nXref: news.example.org misc.test:1 local.moderated:2\r\n\r\n\
    > quoted\r\n..a line with a dot\r\n\r\nBye\r\n";
const CONTROL: &str = "Path: not-for-mail\r\nFrom: usenet@example.org\r\nNewsgroups: misc.test\r\n\
    Subject: cmsg cancel <one$1@example.org>\r\nControl: cancel <one$1@example.org>\r\n\
    Cancel-Key: sha256:s/wmmnUHpHtB+Dtl7UtYjF5gAZv1mKh6u9rX2YJyQ5E= sha1:qv1Vwj\r\n\
    Cancel-Lock: sha256:k8xX+gBuQUaYkWqF0s7Bf3C1bJ8Wm1LwH1yQf3a4d5g=\r\nSupersedes: <zero@example.org>\r\n\
    Date: 1 Jan 2026 00:00 GMT\r\nMessage-ID: <two@example.org>\r\n\r\nbody\r\n";
const SHORT: &str = "Newsgroups: a\r\nFrom: b@c.d\r\nSubject: e\r\nDate: 1 Jan 26 0:0 UT\r\n\
    Message-ID: <f@g>\r\nPath: h\r\n\r\n";

fn all(texts: &[&str]) -> Vec<Vec<u8>> {
    texts.iter().map(|text| text.as_bytes().to_vec()).collect()
}

/// Articles in wire format, some with a first octet or two for targets that begin with numbers.
pub fn articles() -> Vec<Vec<u8>> {
    let plain = all(&[ARTICLE, CONTROL, SHORT]);
    let marked = plain.iter().map(|article| [b"\x01\x07", article.as_slice(), b".\r\n"].concat());
    marked.chain(plain.clone()).collect()
}

/// A message of a cluster's log, and the body in it.
pub fn log_messages() -> Vec<Vec<u8>> {
    let message = include_bytes!("../../../cluster/tests/golden/format-1.nrl");
    vec![message.to_vec(), message[44..message.len() - 4].to_vec()]
}

/// Files of posts for upstreams.
pub fn posts() -> Vec<Vec<u8>> {
    let head = |refused: &str| {
        format!("newsreel post 1\nid <1@x>\nto isp\nfrom ::1\nuser fred\nqueued 5\nrefused {refused}\n\n")
            .into_bytes()
    };
    [articles(), vec![[head(""), b"From: x\r\n\r\nbody\r\n".to_vec()].concat(), head("441 no")]].concat()
}

/// What servers send to those who read there.
pub fn upstreams() -> Vec<Vec<u8>> {
    let lines = all(&[
        "7\tS\tF\tD\t<x@y>\t<a@b>\t100\t2\tXref: h a.b:7 c.d:1 e.f:3",
        "7\tS\tF\tD\t<x@y>\t\t\t\tother\txref: h a.b:9",
        "a.b 0000000005 0000000002 y",
        "a.b 5 2 3 =c.d",
        "a.b 1000 me@x",
        "a.b\tAll of it",
        "3 1 5 a.b",
        "0 0 0",
    ]);
    [articles(), lines].concat()
}

/// Articles with MIME, files and markup in them.
pub fn pages() -> Vec<Vec<u8>> {
    let mime = "Subject: =?utf-8?Q?Gr=C3=BC=C3=9Fe?= <script>\r\nMessage-ID: <1@x>\r\n\
        Content-Type: multipart/mixed; \
        boundary=b\r\n\r\n--b\r\nContent-Type: text/plain; format=flowed; charset=iso-8859-1\r\n\
        Content-Transfer-Encoding: quoted-printable\r\n\r\n> quoted =\r\n\
        http://a.example/?b&c \r\n-- \r\nsig\r\n\
        --b\r\nContent-Type: multipart/alternative; boundary=\"c\"\r\n\r\n--c\r\n\r\nplain\r\n--c\r\n\
        Content-Type: text/html\r\n\r\n<b onclick=x>&lt;</b>\r\n--c--\r\n--b\r\nContent-Type: image/png\r\n\
        Content-Disposition: attachment; filename*=utf-8''../%C3%BC.png\r\n\
        Content-Transfer-Encoding: base64\r\n\r\n\
        iVBORw0KGgo=\r\n--b\r\nContent-Type: message/rfc822\r\n\r\nSubject: in\r\n\r\nner\r\n--b--\r\n";
    let files = "Subject: files\r\n\r\nnews:a@b.c\r\nbegin 644 ../x.gif\r\n#9F]U\r\n`\r\nend\r\n\
        =ybegin part=1 total=2 line=128 size=2 name=a b.bin\r\n=ypart begin=1 end=2\r\n\u{8b}=}\r\n\
        =yend size=2 pcrc32=00000000\r\n";
    [all(&[mime, files, ARTICLE]), articles()].concat()
}

/// Files of mails.
pub fn mboxes() -> Vec<Vec<u8>> {
    all(&[
        "From a@b Thu Jan  1 00:00:07 1970\nSubject: x\n\n>From y\n>>From z\n\n\
         From c Fri Jan  2 00:00:00 1970\n\nw\n\n",
        "From a Thu Jan  1 00:00:07 1970 remote from z\r\nA: b\r\n\r\nx\r\n\r\n\
         From d Thu, 1 Jan 1970 00:00:08 +0000\r\n",
        "garbage\n\nFrom a Thu Jan  1 00:00:07 1970\nA: b\n",
    ])
}

/// Batches for rnews.
pub fn batches() -> Vec<Vec<u8>> {
    let piece = |text: &str| {
        let text = text.replace("\r\n", "\n");
        format!("#! rnews {}\n{text}", text.len())
    };
    let batch = [ARTICLE, CONTROL, SHORT].map(piece).concat();
    all(&[&batch, &piece(SHORT), "#! cunbatch\n", SHORT])
}

/// Logs of what readers asked for: ours, and nnrpd's.
pub fn access_logs() -> Vec<Vec<u8>> {
    all(&[
        "1700000000 192.0.2.1 article isp a.b 7 <x@y> 0 2350 miss\n\
         1700000001 192.0.2.1 overview isp a.b 1 - 99 0 hit\n",
        "Nov 23 04:31:11 news nnrpd[77]: a.example (192.0.2.1) connect\n\
         Nov 23 04:33:00 news nnrpd[77]: a.example group comp.lang.c 3\n\
         2026-11-23T04:33:00.5+00:00 news nnrpd[77]: a.example artstats get 3 time 0 size 6000\n\
         Nov 23 04:34:00 news nnrpd[78]: b.example < ARTICLE 5\n\
         Nov 23 04:34:00 news nnrpd[78]: b.example times user 0 system 0 idle 0 elapsed 1\n",
    ])
}

/// Files of INN's configuration, each after a line with its name.
pub fn configurations() -> Vec<Vec<u8>> {
    all(&[
        "[site]\npath_identity = \"a.example\"\n[[buffer]]\nname = \"b\"\npath = \"b\"\nsize = \"4 MiB\"\n\
         [[class]]\nname = \"c\"\nmethod = \"cnfs\"\nbuffers = [\"b\"]\n\
         [[rule]]\nclass = \"c\"\ngroups = \"*\"\n",
        "[[peer]]\nname = \"p\"\naddresses = [\"192.0.2.1\"]\n[peer.send]\n\
         to = \"p.example:119\"\nsize_max = \"1 MB\"\n\
         [[access]]\nfrom = \"all\"\nread = \"*,!a.*\"\npost = \"*\"\n[web]\nlisten = [\"127.0.0.1:8119\"]\n",
        "[[upstream]]\nname = \"u\"\nhost = \"u.example:563\"\ntls = \"implicit\"\n\
         [cache]\nsize = \"1 GiB\"\n\
         strategy = \"lrug\"\n[[control]]\ntype = \"newgroup\"\naction = \"do\"\n\
         [limits]\nread_timeout = \"1 s\"\n",
    ])
}

pub fn requests() -> Vec<Vec<u8>> {
    all(&[
        "{\"do\":\"ping\"}",
        "{\"do\":\"reload\"}\n",
        "{\"do\":\"why\",\"message_id\":\"<a@b>\",\"peer\":\"p\"}",
        "{\"do\":\"pause\",\"reason\":\"\\u0000\\ud83d\\ude00\"}",
        "{\"do\":\"compare\",\"file\":\"/a\",\"text\":\"[site]\\n\"}",
    ])
}

pub fn rows() -> Vec<Vec<u8>> {
    all(&[
        "1\tx\ta@b\t1 Jan 1970\t<1@x>\t\t1\t1\r\n2\tRe: x\ta@b\t1 Jan 1970\t<2@x>\t<1@x>\t1\t1\r\n",
        "3\tRe: y\ta@b\t\t<3@x>\t<4@x> <5@x> <4@x>\t1\t1\r\n4\ty\ta@b\t\t<4@x>\t<3@x> <6@x>\t1\t1\r\n",
        "5\t\t\t\t<5@x>\t<7@x> <8@x> <5@x>\t\t\r\n5\t\t\t\t<5@x>\t<8@x> <7@x>\t\t\r\n",
    ])
}

pub fn settings() -> Vec<Vec<u8>> {
    all(&[
        "== inn.conf\npathhost: a.example\nartcutoff: 3\nport: 119\nextraoverviewhidden: [ a b ]\n\
         == expire.ctl\n/remember/:5\n*:A:1:10:never\n\
         == storage.conf\nmethod tradspool {\n newsgroups: *\n class: 0\n}\n",
        "== storage.conf\nmethod cnfs {\n newsgroups: a.*,@b\n class: 1\n size: 1,2\n options: M\n}\n\
         == cycbuff.conf\ncycbuff:A:/a:512\nmetacycbuff:M:A:SEQUENTIAL\n",
        "== incoming.conf\npeer a {\n hostname: \"192.0.2.1, ::1\"\n password: x\n}\n\
         group g { peer b { patterns: *\n}\n}\n\
         == newsfeeds\n$X=b.*\nME:*/!local::\na/c:@$X,d.*:Tm,<9,Q1/2:innfeed!\ninnfeed!:!*:Tc:/innfeed\n\
         f:*:Tf,Wnm:\n\
         == innfeed.conf\npeer a { port-number: 433 }\n== nntpsend.ctl\nf:h::\n== passwd.nntp\nh:u:p\n",
        "== readers.conf\nauth a {\n hosts: \"10.*, !10.1.2.3\"\n default: <A>\n auth: ck\n}\n\
         access a {\n users: <A>\n newsgroups: *\n access: RPANL\n}\n\
         == moderators\na.*:%s@m.example\n\
         == control.ctl\nall:*:*:drop\nnewgroup:a@b:x.*|y.*:verify-k=mail\n",
        "== sys\nME:comp::\na/b:comp,!comp.x/all,!ut:Lf:\nc:all:n:/c\nd:x::uux - d!rnews\n\
         == batchparms\n/default/ u 5000-9000 20 batcher | compcun | viauux\na u! 1 - gzip\n\
         == explist\n/expired/ x 14 -\n/bounds/ x 0-1-90 -\na,!a.b u 4 -\nall x 1.5-never @\n\
         == mailpaths\nbackbone %s@x\na %s@y\n== controlperm\na b@c nr yv\nall any n nq\n",
        "== config\nhostname = a.b\nexpire = 20\ngroupexpire a.* = 5\nserver = h\nusername = u\n\
         password = p\nport = 1\ninitialfetch = 3\nserver = i\nnoread = 1\n\
         == dnewsfeeds\ngroupdef g\naddgroup *\ngroupref g\nend\nlabel a\nalias b\ngroupref g\n\
         delgroupany x\nmaxsize 9\nhashfeed 1/2\narttypes !binary\nend\n\
         == dnntpspool.ctl\na h t60\n",
    ])
}

/// The beginning of a certificate, with names.
pub fn certificates() -> Vec<Vec<u8>> {
    let name = b"\x82\x10news.example.org\x82\x0b*.example.o\x87\x04\xc0\x00\x02\x01";
    let names = [&b"\x30\x2c\x06\x03\x55\x1d\x11\x04\x25\x30\x23"[..], name].concat();
    vec![[&b"\x30\x82\x01\x00\x30\x81\xf0\xa0\x03\x02\x01\x02"[..], &names].concat(), names]
}

/// What the clients of the transcripts say, section by section.
pub fn sessions() -> Vec<Vec<u8>> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../newsreel/tests/transcripts");
    let mut paths: Vec<_> = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    let mut sessions = Vec::new();
    for path in paths.iter().filter(|path| path.extension().is_some_and(|end| end == "txt")) {
        for section in fs::read_to_string(path).unwrap().split("\n## ") {
            let lines = section.lines().filter_map(|line| line.strip_prefix("C:"));
            let said: String = lines.map(|line| line.trim_start_matches(' ').to_owned() + "\r\n").collect();
            sessions.push(said.into_bytes());
        }
    }
    assert!(sessions.len() > 50, "the transcripts are read");
    sessions
}

/// The lines of those sessions.
pub fn commands() -> Vec<Vec<u8>> {
    let sessions = sessions();
    let lines = sessions.iter().flat_map(|session| session.split(|octet| *octet == b'\n'));
    lines.map(|line| line.trim_ascii_end().to_vec()).filter(|line| line.len() < 600).collect()
}

/// Compressed streams after the two octets that say how they arrive.
pub fn streams() -> Vec<Vec<u8>> {
    let text = ARTICLE.repeat(20);
    let streams = [(text.as_str(), 700, true), (ARTICLE, 10, false), ("", 1, false)];
    let compressed = streams.map(|(text, piece, pause)| deflate_in_pieces(text.as_bytes(), piece, pause));
    compressed.into_iter().map(|stream| [b"\x40\x07", stream.as_slice()].concat()).collect()
}

/// Values of Date.
pub fn dates() -> Vec<Vec<u8>> {
    all(&[
        "Thu, 01 Jan 2026 12:00:00 +0100",
        "1 Jan 98 23:59 EST",
        "29 Feb 2024 23:59:60 GMT (comment)",
        "Sun, 6 Nov 1994 08:49:37 -0000",
    ])
}

/// Values of Message-ID, Newsgroups, Path, and of overview fields with bars between.
pub fn values() -> Vec<Vec<u8>> {
    all(&[
        "<one$1@example.org>",
        "<\"a b\"@[192.0.2.1]>",
        "misc.test,comp.lang.c++, local.x-y_z",
        "a.example!.MATCH!b.example!!c!.POSTED.192.0.2.1!not-for-mail",
        "Re: subject|joe@example.org|1 Jan 2026 00:00 GMT|<a@b>|<c@d> <e@f>|news.example.org a.b:1",
    ])
}

/// Queries of the full text search.
pub fn searches() -> Vec<Vec<u8>> {
    all(&[
        "usenet \"c news\" -spam subject:re from:henry",
        "group:comp.*,!comp.lang.c after:1989-01-31 before:1990 thread:<a@b>",
        "\u{65e5}\u{672c} Gr\u{fc}\u{df}e foo-bar x:y \"open",
    ])
}

/// How proxies begin connections.
pub fn proxies() -> Vec<Vec<u8>> {
    let mut seeds = all(&["PROXY TCP4 192.0.2.7 192.0.2.1 5555 119\r\nDATE\r\n", "PROXY UNKNOWN\r\n"]);
    seeds.push(
        [&b"\r\n\r\n\0\r\nQUIT\n\x21\x11\x00\x0c"[..], &[192, 0, 2, 7, 192, 0, 2, 1, 21, 179, 0, 119]]
            .concat(),
    );
    seeds
}

/// What servers answer.
pub fn replies() -> Vec<Vec<u8>> {
    all(&[
        "200 welcome\r\n211 2 1 2 misc.test\r\n223 1 <a@b>\r\n205 bye\r\n",
        "101 capabilities\r\nVERSION 2\r\nREADER\r\n.\r\n220 1 <a@b>\r\nA: b\r\n\r\n..x\r\n.\r\n",
        "224 rows\r\n1\ta\tb\tc\td\te\t1\t1\r\n.\r\n430 no\r\n",
    ])
}

/// A mechanism and responses.
pub fn sasl() -> Vec<Vec<u8>> {
    all(&[
        "PLAIN\nAGZyZWQAc2VjcmV0",
        "SCRAM-SHA-256\nbiwsbj1mcmVkLHI9Zm9v\nYz1iaXdzLHI9Zm9vLHA9YmFy",
        "EXTERNAL\n=",
        "PLAIN\n\nAGZyZWQAYQ==",
    ])
}

/// An article with a signature, and keys, after the octet that says where they part.
pub fn signed() -> Vec<Vec<u8>> {
    let signed = format!(
        "X-PGP-Sig: 2.6.3a Subject,Control,Message-ID,Date,From\r\n\tiQCVAwUBO6hzrsGdwVjYxQ8VAQFdDwP/\r\n\
         \t=abcd\r\n{CONTROL}"
    );
    let keys = b"\x99\x00\x0d\x04\x60\x00\x00\x00\x01\x00\x08\xff\x00\x02\x03\xb4\x07x-admin";
    vec![[b"\xe0", signed.as_bytes(), keys].concat(), [b"\xf0", CONTROL.as_bytes(), keys].concat()]
}

/// Articles, and such that have a label, after a line of groups.
pub fn asides() -> Vec<Vec<u8>> {
    let label = "Message-ID: <0123@aside.invalid>\r\nX-Newsreel-Aside: a.b,c.d peer some.example\r\n\
                 X-Newsreel-Aside-Message-ID: <1@x>\r\n";
    let article = |line: &str| {
        format!(
            "a.b,x.y\nPath: x!y\r\nFrom: a@x\r\nNewsgroups: a.b\r\n{line}Subject: s\r\n\
             Date: d\r\n\r\nbody\r\n"
        )
    };
    let mut seeds = articles();
    seeds.extend(
        [article(label), article("Message-ID: <1@x>\r\n"), article("message-id:\r\n <1@x>\r\n")]
            .map(Vec::from),
    );
    seeds
}

/// NoCeM notices, signed in the clear.
pub fn notices() -> Vec<Vec<u8>> {
    let notice = "@@BEGIN NCM HEADERS\nVersion: 0.93\nIssuer: bot@x.example\nType: spam\nAction: hide\n\
        Count: 2\nNotice-ID: 7\n@@BEGIN NCM BODY\n\
        # why\n<1@x>\tcomp.a\n<2@x> comp.a comp.b\n\tcomp.c,comp.d\n\
        @@END NCM BODY\n- -- \nbye\n";
    let signed = format!(
        "hello\n-----BEGIN PGP SIGNED MESSAGE-----\nHash: SHA256\n\n{notice}-----BEGIN PGP SIGNATURE-----\n\n\
         whQEAQEIAAYFAgECAwQAAAcHAAkBAQ==\n-----END PGP SIGNATURE-----\n"
    );
    vec![notice.into(), signed.replace('\n', "\r\n").into(), signed.into()]
}

/// Files of users.
pub fn users() -> Vec<Vec<u8>> {
    all(&[
        "# users\nfred:$argon2id$v=19$m=19456,t=2,p=1$c2FsdHNhbHQ$aGFzaGhhc2hoYXNoaGFzaA::staff,poster\n",
        "ann:::\n\nbob:x:SCRAM-SHA-256$4096:c2FsdA==$a2V5$c2Vy:\n",
    ])
}

/// Filters, names, and the answers of a directory to a bind, and to a search with its end.
pub fn directories() -> Vec<Vec<u8>> {
    let filters = [
        "(&(objectClass=person)(|(uid=%s)(mail=%s))(!(cn=a*b*c))(age>=5)(cn~=%%))",
        "(member:1.2.840.113556.1.4.1941:=%d)",
        "(:dn:caseExactMatch:=a\\2a%s)",
        "cn=a\\, b + ou=#0c0161,dc=x",
    ];
    let answers = [
        &b"\x30\x0c\x02\x01\x01\x61\x07\x0a\x01\x00\x04\x00\x04\x00"[..],
        b"\x30\x23\x02\x01\x02\x64\x1e\x04\x08uid=fred\x30\x12\x30\x10\x04\x08memberOf\x31\x04\x04\x02a=",
        b"\x30\x0e\x02\x01\x03\x65\x09\x0a\x01\x04\x04\x00\x04\x02no",
    ];
    let seed = |filter: &str, answer: &[u8]| [filter.as_bytes(), b"\nfred)(uid=*\n", answer].concat();
    filters.iter().flat_map(|filter| answers.map(|answer| seed(filter, answer))).collect()
}

/// Forms as browsers send them.
pub fn forms() -> Vec<Vec<u8>> {
    all(&["user=fred&password=a+b%26%C3%BC&next=%2F&form_token=x-_", "a=1&&b&=c&a=%0d%0A"])
}

/// Wildmats and texts.
pub fn wildmats() -> Vec<Vec<u8>> {
    all(&[
        "comp.*,!comp.os.*,comp.os.linux\ncomp.os.linux",
        "*a?c*\nxxabcyy",
        "!*\nx",
        "\u{e9}*,?\n\u{e9}t\u{e9}",
    ])
}

/// A name that is looked up, and groups.
pub fn groups() -> Vec<Vec<u8>> {
    ["b\na\na.b\na.b-c\na.b.c\na-b.c\na+b", "2600.\nalt.2600\nalt.2600.x\nalt\n2600.x", "\na..b\n.a\na."]
        .map(|text| text.as_bytes().to_vec())
        .to_vec()
}

/// Entries of a snapshot.
pub fn snapshots() -> Vec<Vec<u8>> {
    let entry = |kind: u8, fields: &[&[u8]]| {
        let body = [&[kind][..], &fields.concat()].concat();
        [&[u8::try_from(body.len()).expect("a short entry")][..], &body].concat()
    };
    let (key, time) = ([7; 16], 1_795_000_000_u32.to_le_bytes());
    let entries = [
        entry(1, &[&key, b"\x05", &time]),
        entry(2, &[b"\x09misc.test\x01y\x00\x02me\x05\x00"]),
        entry(
            3,
            &[b"\x01", &time, &[0; 4], b"\x01\x09misc.test\x07", SHORT.get(..60).unwrap_or(SHORT).as_bytes()],
        ),
        entry(4, &[b"\x02", &key, &time]),
        entry(5, &[&key]),
        entry(6, &[&key, b"\x01\x09misc.test"]),
        entry(7, &[&key]),
        entry(8, &[b"\x09misc.test\x01m\x00\x02me\x05\x09"]),
        entry(9, &[b"\x03old\x07"]),
        entry(10, &[&time, b"\x05<f@g>\x08operator\x03why"]),
        entry(11, &[b"\x01", &time, b"\x01k\x01v"]),
        entry(12, &[b"\x01\x01", &time, &key]),
        entry(200, &[b"of a later version"]),
    ];
    let all = entries.concat();
    entries.into_iter().chain([all]).collect()
}
