//! Accounts that wait for an operator: confirm, refuse.

use super::desk::{ActionNotice, OperatorDesk, PlannedAction, ago};
use super::paths;
use crate::WebState;
use crate::form::FormSubmission;
use crate::visitor::Visitor;
use axum::extract::State;
use axum::response::Response;
use maud::html;
use operators::accounts::{AccountsCommand, AccountsOperation};
use operators::reply::{Reply, SignUpRow};
use site_base::clock::unix_secs;
use site_base::units::counted;
use site_config::ConfigWord;
use std::sync::Arc;

const PATH: &str = paths::ACCOUNTS;
/// Accounts that are listed.
const ROWS_MAX: usize = 100;

pub(super) async fn show(
    State(shared): State<Arc<WebState>>,
    visitor: Visitor,
) -> Result<Response, Response> {
    let desk = OperatorDesk::open(&shared, &visitor, PATH)?;
    waiting(&desk, None).await
}

pub(super) async fn act(
    State(shared): State<Arc<WebState>>,
    form: FormSubmission,
) -> Result<Response, Response> {
    let desk = OperatorDesk::open(&shared, &form.visitor, PATH)?;
    let notice = desk.act(&form, planned(&form)).await?;
    waiting(&desk, Some(&notice)).await
}

fn planned(form: &FormSubmission) -> Option<PlannedAction> {
    let name = form.field("name").to_owned();
    match form.field("action") {
        "confirm" => {
            let command = AccountsCommand::Confirm { names: vec![name] };
            Some(PlannedAction::at_once(AccountsOperation { command }))
        }
        "refuse" => {
            let question = format!("The account {name} will be deleted, with its password and note.");
            let command = AccountsCommand::Refuse { names: vec![name] };
            Some(PlannedAction::after(question, AccountsOperation { command }))
        }
        _ => None,
    }
}

async fn waiting(desk: &OperatorDesk<'_>, notice: Option<&ActionNotice>) -> Result<Response, Response> {
    let list = AccountsOperation { command: AccountsCommand::List {} };
    let heard = desk.ask(list, (0, Vec::new()), |(count, rows): &mut (u64, Vec<SignUpRow>), reply| {
        if let Reply::SignUp(row) = reply {
            *count += 1;
            if rows.len() < ROWS_MAX {
                rows.push(row);
            }
        }
    });
    let ((count, rows), now) = (heard.await?, unix_secs());
    let mode = desk.visitor().client().config().web.sign_up.word();
    let body = html! {
        p.quiet {
            "Signing up is " (mode) " (" code { "web.sign_up" } "). " (counted(count, "account"))
            @if count == 1 { " waits." } @else { " wait." }
        }
        @if !rows.is_empty() {
            div.card.table { table {
                thead { tr { @for title in ["name", "asked", "from", "note", "decide"] { th scope="col" { (title) } } } }
                tbody { @for row in &rows {
                    @let name = [("name", row.name.as_str())];
                    tr {
                        th scope="row" { (row.name) }
                        td data-label="asked" { (ago(row.asked, now)) }
                        td data-label="from" { (row.address) }
                        td.wide data-label="note" dir="auto" { (row.note) }
                        td data-label="decide" {
                            (desk.button("Confirm", "confirm", &name)) (desk.button("Refuse", "refuse", &name))
                        }
                    }
                } }
            } }
        }
    };
    Ok(desk.page("Accounts", notice, &body))
}
