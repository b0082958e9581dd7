//! Logins at an LDAP directory: OpenLDAP's slapd, with TLS.

use super::{accepted, log_in, refused, start_with};
use crate::clients::installed;
use crate::layers::Authority;
use crate::running::AtEnd;
use crate::waiting::wait_until;
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use tempfile::TempDir;

const PEOPLE: &str = "\
dn: dc=example,dc=org
objectClass: dcObject
objectClass: organization
o: Example
dc: example

dn: ou=people,dc=example,dc=org
objectClass: organizationalUnit
ou: people

dn: ou=groups,dc=example,dc=org
objectClass: organizationalUnit
ou: groups

dn: uid=barney,ou=people,dc=example,dc=org
objectClass: inetOrgPerson
uid: barney
cn: Barney
sn: Rubble
mail: barney@example.org
userPassword: rubble stone

dn: uid=betty,ou=people,dc=example,dc=org
objectClass: inetOrgPerson
uid: betty
cn: Betty
sn: Rubble
userPassword: betty's password

dn: cn=news,ou=groups,dc=example,dc=org
objectClass: groupOfNames
cn: news
member: uid=barney,ou=people,dc=example,dc=org
";

/// Writes a configuration of slapd and fills its database.
fn prepare(dir: &Path, authority: &Authority) {
    authority.write(&dir.join("ca.crt"));
    authority.sign("localhost").write(&dir.join("ldap.crt"), &dir.join("ldap.key"));
    std::fs::create_dir(dir.join("db")).unwrap();
    let schemas =
        ["core", "cosine", "inetorgperson"].map(|name| format!("include /etc/ldap/schema/{name}.schema\n"));
    let at = dir.display();
    let text = format!(
        "{}TLSCertificateFile {at}/ldap.crt\nTLSCertificateKeyFile {at}/ldap.key\n\
         TLSCACertificateFile {at}/ca.crt\npidfile {at}/pid\n\
         security simple_bind=1\n\
         database ldif\nsuffix dc=example,dc=org\nrootdn cn=root,dc=example,dc=org\nrootpw \"for searching\"\n\
         directory {at}/db\n\
         access to attrs=userPassword by anonymous auth by * none\n\
         access to * by dn.exact=cn=root,dc=example,dc=org read by self read by users read by * auth\n",
        schemas.concat()
    );
    std::fs::write(dir.join("slapd.conf"), text).unwrap();
    std::fs::write(dir.join("people.ldif"), PEOPLE).unwrap();
    std::fs::write(dir.join("password"), "for searching\n").unwrap();
    let added = Command::new("/usr/sbin/slapadd")
        .arg("-f")
        .arg(dir.join("slapd.conf"))
        .arg("-l")
        .arg(dir.join("people.ldif"))
        .output()
        .unwrap();
    assert!(added.status.success(), "{}", String::from_utf8_lossy(&added.stderr));
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// Starts slapd with a port for StartTLS and one for TLS from the first octet.
fn slapd(dir: &Path) -> (Child, u16, u16) {
    let (plain, tls) = (free_port(), free_port());
    let child = Command::new("/usr/sbin/slapd")
        .args(["-d", "0", "-h", &format!("ldap://127.0.0.1:{plain} ldaps://127.0.0.1:{tls}"), "-f"])
        .arg(dir.join("slapd.conf"))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    wait_until("slapd listens", || {
        [plain, tls].iter().all(|port| TcpStream::connect(("127.0.0.1", *port)).is_ok())
    });
    (child, plain, tls)
}

#[test]
fn users_of_openldap_log_in_with_their_groups() {
    if !installed(&[("/usr/sbin/slapd", "slapd")]) {
        return;
    }
    let dir = TempDir::new().unwrap();
    prepare(dir.path(), &Authority::new());
    let (mut child, plain, tls) = slapd(dir.path());
    let _end = AtEnd(move || {
        let _ended = child.kill();
        child.wait().unwrap();
    });
    let ca = dir.path().join("ca.crt");
    let password = dir.path().join("password");
    let found_by_search = format!(
        "base = \"dc=example,dc=org\"\nfilter = \"(&(objectClass=inetOrgPerson)(|(uid=%s)(mail=%s)))\"\n\
         service_dn = \"cn=root,dc=example,dc=org\"\nservice_password_file = {password:?}\n"
    );
    let by_name = "user_dn = \"uid=%s,ou=people,dc=example,dc=org\"\n";
    let groups = "group_base = \"ou=groups,dc=example,dc=org\"\n\
                  groups = [\"cn=news,ou=groups,dc=example,dc=org -> staff\"]\n";
    for (port, encryption, entry) in [
        (tls, "implicit", found_by_search.as_str()),
        (plain, "starttls", &found_by_search),
        (tls, "implicit", by_name),
    ] {
        let server = start_with(&format!(
            "[[ldap]]\nname = \"people\"\nto = \"localhost:{port}\"\ntls = \"{encryption}\"\ntls_ca = {ca:?}\n\
             {entry}{groups}"
        ));
        assert_eq!(log_in(&server, "barney", "rubble stone"), accepted(true), "{encryption} {entry}");
        assert_eq!(log_in(&server, "Barney", "rubble stone"), accepted(true), "{encryption} {entry}");
        assert_eq!(log_in(&server, "betty", "betty's password"), accepted(false), "{encryption} {entry}");
        for (name, password) in [
            ("barney", "wrong"),
            ("wilma", "rubble stone"),
            ("*", "rubble stone"),
            ("barney)(uid=*", "rubble stone"),
        ] {
            assert_eq!(log_in(&server, name, password), refused(), "{name}");
        }
        if entry == found_by_search {
            assert_eq!(log_in(&server, "barney@example.org", "rubble stone"), accepted(true));
        }
        // A user with a password here is never looked for elsewhere.
        server.user(&["add", "betty"], "betty's own\n").unwrap();
        assert_eq!(log_in(&server, "betty", "betty's password"), refused());
        assert_eq!(log_in(&server, "betty", "betty's own"), accepted(false));
    }
    // Certificates of others are not accepted, and the client is not blamed.
    Authority::new().write(&ca);
    let server = start_with(&format!(
        "[[ldap]]\nname = \"people\"\nto = \"localhost:{tls}\"\ntls_ca = {ca:?}\n{by_name}{groups}"
    ));
    assert_eq!(log_in(&server, "barney", "rubble stone"), ("403".to_owned(), false));
}
