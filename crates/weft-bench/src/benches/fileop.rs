//! Creating and removing files of one byte by one client, over more and more data servers, as
//! Fileop does: by when the objects on the data servers are made (figure 4 of P2).

use bytes::Bytes;

use super::small::micro::{Phase, Step, Worker, measured, unmeasured};
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
const STEPS: [Step; 5] = [
    unmeasured(Phase::Mkdir),
    measured(Phase::Create, "create"),
    measured(Phase::Write, "write"),
    measured(Phase::Close, "close"),
    measured(Phase::Remove, "remove"),
];
/// What is shown; the others are among the points of the JSON.
const SHOWN: [&str; 2] = ["create", "remove"];
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
            let key = Key { phase, config: setup.name, data_servers: over[0] };
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
        let worker = |client| Worker::new(client, 0, files, Bytes::from_static(b"x"));
        let mut workers: Vec<_> = clients.into_iter().map(worker).collect();
        for Step { phase, name } in STEPS {
            let operations = phase.operations(files);
            let run = |worker: Worker| worker.run(phase);
            let (back, sample) = workers::phase(&servers, workers, operations, run).await?;
            workers = back;
            if let Some(phase) = name {
                figures.add(Key { phase, config: setup.name, data_servers }, sample);
            }
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is shown is measured, and what must be flat is one of those measured.
    #[test]
    fn what_is_shown_is_measured() {
        assert!(SHOWN.iter().all(|name| STEPS.iter().any(|step| step.name == Some(*name))));
        assert!(FLAT.iter().all(|name| OBJECT_CREATION.iter().any(|setup| setup.name == *name)));
        assert!(QUICK_OVER.iter().all(|count| OVER.contains(count)));
    }
}
