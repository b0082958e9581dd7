//! `[[oidc]]`: providers at which users of the pages log in.

use std::path::PathBuf;
use std::time::Duration;

use super::GroupGrant;
use super::kinds::*;

section! {
    /// An OpenID provider at which visitors of the pages log in (docs/logins.md): the page /login has a
    /// button for it. Register this server there as a client, with the redirect address of the pages and
    /// /login/with/NAME/back. Newsreaders cannot log in this way.
    [[oidc]] Oidc, OidcDraft {
        /// A name for the log and for the address of the login.
        name: String = Name, example "campus";
        /// The text of the button, after "Log in with".
        label: Option<String> = Maybe(Text), example "your campus account";
        /// The provider's issuer, below which its description is found
        /// (/.well-known/openid-configuration). http is taken for this machine only.
        issuer: String = Issuer, example "https://login.example.org/realms/campus";
        /// The name under which this server is registered as a client.
        client_id: String = Text, example "news";
        /// The file whose first line is the client's secret, relative to the directory of this file; without
        /// it this server is a public client, which PKCE protects.
        client_secret_file: Option<PathBuf> = Maybe(FilePath), example "oidc.secret", of machine;
        /// What to ask the provider for, beside "openid".
        scopes: Vec<String> = ListOf(Text), default ["profile"], example ["profile", "email", "groups"];
        /// The claim that is the user's name here. Only "sub" is never given to another user by any
        /// provider; "preferred_username" is easier to read. "email" counts only with email_verified. A
        /// claim that is not in the ID token is asked for at the provider's UserInfo endpoint.
        name_claim: String = Text, default "sub", example "preferred_username";
        /// What is appended to that, so that no user of the provider has the name of another user.
        name_suffix: Option<String> = Maybe(Text), example "@campus";
        /// The claim with the user's groups: a list of texts, or one text.
        group_claim: String = Text, default "groups", example "roles";
        /// The groups of the provider that count for user_groups of [[access]], each as "NAME AT THE PROVIDER
        /// -> GROUP", or as a GROUP's name that is the same there. Others are ignored.
        groups: Vec<GroupGrant> = ListOf(Grant), default [], example ["news-team -> staff"];
        /// The PEM file of the authorities that may have signed the provider's certificate, relative to the
        /// directory of this file; without it those that the system trusts.
        tls_ca: Option<PathBuf> = Maybe(FilePath), example "provider-ca.crt", of machine;
        /// How long the provider may take for an answer.
        timeout: Duration = Timeout, default "10 s", example "3 s";
    }
}

impl Oidc {
    /// Returns the named files, each relative to the directory of the configuration.
    pub(super) fn files(&mut self) -> impl Iterator<Item = &mut PathBuf> {
        self.tls_ca.iter_mut().chain(&mut self.client_secret_file)
    }

    /// Returns the text of the button.
    pub fn shown_name(&self) -> &str {
        self.label.as_deref().unwrap_or(&self.name)
    }
}
