//! Texts that a verb takes: from a file or standard input, and short enough for a prompt.

use std::io::Read;
use std::path::Path;

use crate::coordinator::failure::Failure;
use crate::fs;

/// The longest text that goes from one session into the prompt of the next, in Unicode characters.
const LONGEST: usize = 20_000;

/// Refuses a text that would crowd everything else out of the next prompt.
pub(super) fn bounded(what: &str, text: &str) -> Result<(), Failure> {
    let characters = text.chars().count();
    if characters <= LONGEST {
        return Ok(());
    }
    Err(Failure::Usage {
        what: format!(
            "{what} has {characters} characters, more than {LONGEST}: it goes into the next prompt; say what matters and name \
             the file that holds the rest"
        ),
    })
}

/// The text of a file, or of standard input for `-`.
pub(super) fn text_of(given: &str) -> Result<String, Failure> {
    let bytes = if given == "-" {
        let mut bytes = Vec::new();
        std::io::stdin()
            .read_to_end(&mut bytes)
            .map_err(|source| Failure::System { what: "read standard input", source })?;
        bytes
    } else {
        fs::read(Path::new(given))?
    };
    String::from_utf8(bytes)
        .map_err(|_| Failure::Usage { what: format!("{given} is not UTF-8; save it as UTF-8 text") })
}
