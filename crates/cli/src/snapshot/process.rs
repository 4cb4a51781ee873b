use crate::failure::Failure;
use clap::Args;
#[derive(Args)]
pub struct ProcessArguments {
    /// Process
    #[arg(value_name = "PID")]
    pid: u32,
}
pub fn process(_arguments: &ProcessArguments) -> Result<(), Failure> {
    todo!()
}
