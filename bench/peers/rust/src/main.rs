//! rslock, driven as bench/peers/README.md says.
use rslock::{Lock, LockManager};
use std::collections::HashMap;
use std::fmt::Write;
use std::io::stdin;
use std::time::{Duration, Instant};

const LEASE: Duration = Duration::from_secs(30);

type Options = HashMap<String, String>;
type Record = [i64; 5];

fn now() -> i64 {
    let mut ts = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut ts) };
    ts.tv_sec * 1_000_000_000 + ts.tv_nsec
}

fn number(options: &Options, key: &str) -> u64 {
    options[key].parse().unwrap()
}

fn line() {
    stdin().read_line(&mut String::new()).unwrap();
}

/* The library gives up after a few tries. Its documentation tells the caller to try again. */
async fn acquire(manager: &LockManager, name: &str) -> Lock {
    loop {
        if let Ok(lock) = manager.lock(name, LEASE).await {
            return lock;
        }
    }
}

/* A hold is up to a quarter longer than given; the clock serves as the random source. */
async fn hold_for(ms: u64) {
    if ms > 0 {
        let more = now() as u64 / 1000 % (250 * ms);
        tokio::time::sleep(Duration::from_micros(ms * 1000 + more)).await;
    }
}

async fn work(manager: LockManager, options: Options, worker: i64, until: i64) -> Vec<Record> {
    let mut name = options["name"].clone();
    if options["names"] != "one" {
        write!(name, ":{worker}").unwrap();
    }
    let hold = number(&options, "hold_ms");
    let pause = number(&options, "pause_ms");
    let mut records = Vec::new();
    while now() < until {
        let requested = now();
        let lock = acquire(&manager, &name).await;
        let acquired = now();
        hold_for(hold).await;
        let releasing = now();
        manager.unlock(&lock).await;
        records.push([worker, requested, acquired, releasing, now()]);
        if pause > 0 {
            tokio::time::sleep(Duration::from_millis(pause)).await;
        }
    }
    records
}

async fn run(manager: LockManager, options: Options) {
    let seconds: f64 = options["seconds"].parse().unwrap();
    let until = now() + (seconds * 1e9) as i64;
    let workers: Vec<_> = (0..number(&options, "workers") as i64)
        .map(|i| tokio::spawn(work(manager.clone(), options.clone(), i, until)))
        .collect();
    let mut text = String::new();
    for worker in workers {
        for [w, a, b, c, d] in worker.await.unwrap() {
            writeln!(text, "{w} {a} {b} {c} {d}").unwrap();
        }
    }
    std::fs::write(&options["out"], text).unwrap();
}

/* There is no renewal: each lock is extended every third of its lease, evenly over that time. */
async fn extend_for_ever(manager: LockManager, mut locks: Vec<Lock>) {
    let step = LEASE / 3 / locks.len() as u32;
    let mut due = Instant::now();
    loop {
        for lock in &mut locks {
            if let Err(error) = manager.extend(lock, LEASE).await {
                eprintln!("{error}");
                std::process::exit(1);
            }
            due += step;
            tokio::time::sleep_until(due.into()).await;
        }
    }
}

async fn hold(manager: LockManager, options: Options) {
    let mut locks = Vec::new();
    for i in 0..number(&options, "locks") {
        locks.push(acquire(&manager, &format!("{}:{i}", options["name"])).await);
    }
    tokio::spawn(extend_for_ever(manager, locks));
    println!("held");
    tokio::task::spawn_blocking(line).await.unwrap();
}

#[tokio::main]
async fn main() {
    let options: Options = std::env::args()
        .filter_map(|word| word.split_once('=').map(|(k, v)| (k.into(), v.into())))
        .collect();
    let manager = LockManager::new(vec![format!("redis://127.0.0.1:{}/", options["port"])]);
    let warm = acquire(&manager, &format!("warm:{}", std::process::id())).await;
    manager.unlock(&warm).await;
    println!("ready");
    line();
    if options["mode"] == "hold" {
        hold(manager, options).await;
    } else {
        run(manager, options).await;
    }
    std::process::exit(0);
}
