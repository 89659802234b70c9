//! Creating and removing files of one byte by one client, over more and more data servers, as
//! Fileop does: by when the objects on the data servers are made (figure 4 of P2).

use bytes::Bytes;

use super::small::micro::{Phase, Process};
use crate::{
    context::{Context, alternating},
    figures::{Figures, Key},
    outcome::Outcome,
    report::Row,
    servers::Servers,
    setup::{ALL_ON, OBJECT_CREATION, Setup},
    workers,
};

/// Data servers, over which creating and removing must not grow dearer.
const OVER: &[u32] = &[1, 2, 4, 8, 16, 32];
/// The same with `--quick`.
const QUICK_OVER: &[u32] = &[1, 4, 32];
/// What is done to each file: it must have been written, or there may be nothing to remove.
const PHASES: [Phase; 5] = [Phase::Mkdir, Phase::Create, Phase::Write, Phase::Close, Phase::Remove];
/// What is shown; the others are among the points of the JSON.
const SHOWN: [Phase; 2] = [Phase::Create, Phase::Remove];
/// Those of which the paper says, and we, that it makes no difference.
const FLAT: [&str; 2] = ["implicit", ALL_ON.name];

/// Measures every number of data servers, each way.
pub(crate) fn bench(context: &Context) -> Outcome<(Vec<Row>, Vec<Figures>)> {
    let (files, over) = if context.quick { (200, QUICK_OVER) } else { (3000, OVER) };
    let mut figures = Figures::default();
    for repeat in 0..context.ablation_repeats() {
        for i in alternating(repeat, over.len()) {
            for way in alternating(repeat, OBJECT_CREATION.len()) {
                measure(context, OBJECT_CREATION[way], over[i], files, &mut figures)?;
            }
        }
    }
    let mut rows = Vec::new();
    for phase in SHOWN {
        for setup in OBJECT_CREATION {
            let key = Key { phase: phase.name(), config: setup.name, data_servers: over[0] };
            rows.extend(figures.over_data_servers(key, over, FLAT.contains(&setup.name)));
        }
    }
    Ok((rows, vec![figures]))
}

fn measure(
    context: &Context,
    setup: Setup,
    data_servers: u32,
    files: usize,
    figures: &mut Figures,
) -> Outcome {
    let dir = context.disk.join("cluster");
    let servers =
        Servers::start_with(&context.weft, &dir, data_servers, &setup.settings(data_servers))?;
    workers::runtime()?.block_on(async {
        let clients = workers::clients(&servers, setup, data_servers, 1).await?;
        let process = |client| Process::new(client, 0, files, Bytes::from_static(b"x"));
        let mut processes: Vec<_> = clients.into_iter().map(process).collect();
        for phase in PHASES {
            let operations = phase.operations(files);
            let run = |process: Process| process.run(phase);
            let (back, sample) = workers::phase(&servers, processes, operations, run).await?;
            processes = back;
            if phase != Phase::Mkdir {
                let key = Key { phase: phase.name(), config: setup.name, data_servers };
                figures.add(key, sample);
            }
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is shown is measured, and who must be flat is one of those measured.
    #[test]
    fn what_is_shown_is_measured() {
        assert!(SHOWN.iter().all(|phase| PHASES.contains(phase)));
        assert!(FLAT.iter().all(|name| OBJECT_CREATION.iter().any(|setup| setup.name == *name)));
        assert!(QUICK_OVER.iter().all(|count| OVER.contains(count)));
    }
}
