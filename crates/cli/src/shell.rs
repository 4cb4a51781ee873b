//! Shell completions and manual pages, from the same declarations as `--help`.

use std::fs;
use std::path::{Path, PathBuf};

use clap::{Args, Command, CommandFactory};
use clap_complete::Shell;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, roman};

use crate::actions::{Failure, write_text};

use crate::output::print;
use crate::{Arguments, reference};

/// Print the completions of commands and options for a shell.
#[derive(Args)]
#[command(after_help = "Examples:
  perforate completions bash > ~/.local/share/bash-completion/completions/perforate
  perforate completions zsh > ~/.zfunc/_perforate            with fpath+=~/.zfunc in .zshrc
  perforate completions fish > ~/.config/fish/completions/perforate.fish
  perforate completions powershell >> $PROFILE")]
pub struct CompletionsArguments {
    /// The shell
    shell: Shell,
}

/// Write a manual page for every command.
#[derive(Args)]
#[command(after_help = "Examples:
  perforate man --out ~/.local/share/man/man1
  man perforate-compare
  perforate man --markdown --out pages")]
pub struct ManArguments {
    /// Folder for the pages; created if missing
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Write Markdown
    #[arg(long)]
    markdown: bool,
}

/// Prints completions for a shell.
pub fn completions(arguments: &CompletionsArguments) -> Result<(), Failure> {
    let mut command = Arguments::command();
    let name = command.get_name().to_owned();
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut command, name, &mut script);
    print(&String::from_utf8_lossy(&script))
}

/// Writes a manual page or a Markdown page for each command.
pub fn man(arguments: &ManArguments) -> Result<(), Failure> {
    let folder = &arguments.out;
    fs::create_dir_all(folder).map_err(|source| Failure::Write { path: folder.clone(), source })?;
    // `perforate help` needs no page.
    let mut command = Arguments::command().disable_help_subcommand(true);
    command.build();
    let write: Page =
        if arguments.markdown { |command| Ok(reference::page(command)) } else { page };
    let pages = write_pages(&command, folder, write)?;
    print(&format!("{pages} pages in {}\n", folder.display()))
}

/// Function that makes the page of a command: file name and text.
type Page = fn(&Command) -> Result<(String, String), Failure>;

/// Writes the pages of a command and of its subcommands. Returns the number of pages.
fn write_pages(command: &Command, folder: &Path, page: Page) -> Result<usize, Failure> {
    let (name, text) = page(command)?;
    write_text(&folder.join(name), &text)?;
    let shown = command.get_subcommands().filter(|inner| !inner.is_hide_set());
    shown.map(|inner| write_pages(inner, folder, page)).try_fold(1, |pages, more| Ok(pages + more?))
}

/// Makes the manual page of a command: file name and text.
fn page(command: &Command) -> Result<(String, String), Failure> {
    let examples = reference::examples(command);
    // clap_mangen would reflow the examples as a paragraph.
    let command = command.clone().after_help(None::<&str>).after_long_help(None::<&str>);
    let page = Man::new(command).source(concat!("perforate ", env!("CARGO_PKG_VERSION")));
    let mut text = Vec::new();
    page.render(&mut text)?;
    if let Some(lines) = examples {
        let mut section = Roff::new();
        section.control("SH", ["EXAMPLES"]).control("nf", []);
        section.text([roman(lines)]).control("fi", []);
        section.to_writer(&mut text)?;
    }
    Ok((page.get_filename(), String::from_utf8_lossy(&text).into_owned()))
}
