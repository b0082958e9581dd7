//! What the pages that ask for an account or a mail have in common: fields, and budgets of networks and of
//! all visitors together.
//!
//! Called by `sign_up` and `mailed`.

use super::WebState;
use super::login::LoginProblem;
use super::visitor::Visitor;
use access::users::ADDRESS_BYTES_MAX;
use maud::{Markup, html};
use site_config::Config;
use std::time::{Duration, Instant};

/// Time in which a budget fills.
const BUDGET_TIME: Duration = Duration::from_secs(86_400);

/// What is said of an address that is none.
pub(super) const NO_ADDRESS: &str = "This is no mail address.";

/// Renders the field for the name of an account.
pub(super) fn name_field(name: &str) -> Markup {
    html! {
        label for="user" { "Name, of lower case letters, digits, dots and hyphens" }
        input #user name="user" value=(name) autocomplete="username" autocapitalize="none"
            spellcheck="false" minlength="3" maxlength="32" required;
    }
}

/// Renders the field for a mail address.
pub(super) fn address_field() -> Markup {
    html! {
        label for="mail" { "Mail address" }
        input #mail name="mail" type="email" maxlength=(ADDRESS_BYTES_MAX) autocomplete="email" required;
    }
}

/// Counts an account or a mail that is asked for; an error if there were too many.
pub(super) fn within_budgets(
    shared: &WebState,
    visitor: &Visitor,
    config: &Config,
) -> Result<(), LoginProblem> {
    let (budgets, web, now) = (&shared.sign_ups, &config.web, Instant::now());
    let address = Some(visitor.client().address());
    let own = budgets.take_within(address, web.sign_ups_per_network, BUDGET_TIME, now);
    let all = own.and_then(|()| budgets.take_within(None, web.sign_ups_per_day, BUDGET_TIME, now));
    all.map_err(|seconds| {
        LoginProblem::limited("Too many accounts were asked for. Try again another day.", seconds)
    })
}
