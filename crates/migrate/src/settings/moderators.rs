//! Converts moderators to `[[moderator]]`; as in INN, the first line that matches the group decides.
//!
//! Called by `settings`. Source: moderators(5).

use super::patterns::Patterns;
use super::sheet::{ConfigDraft, DraftSection};
use super::text::{lines, quoted};

/// Converts moderators.
pub(super) fn convert(text: &str, sheet: &mut ConfigDraft) {
    for line in lines("moderators", text) {
        let Some((groups, address)) = line.text.split_once(':') else {
            sheet
                .remark(line.place, format!("`{}`: no colon between groups and address", quoted(&line.text)));
            continue;
        };
        let mut section = DraftSection::new("moderator");
        match Patterns::parse(groups) {
            Ok(patterns) => section.key("groups", patterns.groups, line.place),
            Err(why) => {
                section.key("groups", groups.trim(), line.place);
                section.disable(why);
            }
        }
        section.noted("address", address.trim(), "");
        sheet.push(section);
    }
}
