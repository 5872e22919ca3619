//! `pictures`: those of the README, anew from the running pages.

use std::process::ExitCode;

use anyhow::Result;

use crate::command::run;
use crate::{build, tools};

pub fn take() -> Result<ExitCode> {
    build::for_start()?;
    tools::TESTS.install()?;
    let mut node = tools::npm("node");
    run(node.arg("tests/support/pictures.ts").env(tools::CHROMIUM_VARIABLE, tools::chromium()?))?;
    Ok(ExitCode::SUCCESS)
}
