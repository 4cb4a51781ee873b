//! JavaScript engine (QuickJS) that runs the chart library of HTML pages.

use std::io::Read as _;

use flate2::read::GzDecoder;
use rquickjs::{CatchResultExt, Context, Function, Promise, Runtime};

use crate::html::LIBRARY;

const DRAW: &str = include_str!("draw.js");

/// A JavaScript engine that has loaded the chart library.
pub(super) struct Engine(Context);

impl Engine {
    /// Starts a JavaScript engine and loads the chart library.
    pub(super) fn start() -> Result<Self, String> {
        let mut library = String::new();
        GzDecoder::new(LIBRARY).read_to_string(&mut library).map_err(|error| error.to_string())?;
        let runtime = Runtime::new().map_err(|error| error.to_string())?;
        let context = Context::full(&runtime).map_err(|error| error.to_string())?;
        context.with(|engine| {
            [DRAW, &library].into_iter().try_for_each(|source| {
                let loaded = engine.eval::<(), _>(source).catch(&engine);
                loaded.map_err(|error| error.to_string())
            })
        })?;
        Ok(Self(context))
    }

    /// Draws a Vega-Lite specification (`chart`) as SVG, `width` pixels wide.
    pub(super) fn draw(&self, chart: &str, width: u32, config: &str) -> Result<String, String> {
        self.0.with(|engine| {
            let draw = || -> rquickjs::Result<String> {
                let draw: Function<'_> = engine.globals().get("draw")?;
                draw.call::<_, Promise<'_>>((chart, width, config))?.finish()
            };
            draw().catch(&engine).map_err(|error| error.to_string())
        })
    }
}
