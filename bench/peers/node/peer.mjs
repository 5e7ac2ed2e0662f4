// node-redlock (peer=redlock) and redis-semaphore (peer=semaphore), driven as
// bench/peers/README.md says.
import { writeFileSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import Redis from 'ioredis';

const LEASE_MS = 30000;
const options = Object.fromEntries(process.argv.slice(2).map((word) => word.split(/=(.*)/s, 2)));
const now = () => process.hrtime.bigint();
const client = new Redis({ host: '127.0.0.1', port: Number(options.port) });

async function redlock() {
  const { default: Redlock } = await import('redlock');
  const locks = new Redlock([client], { retryCount: -1 });
  return {
    acquire: (name) => locks.acquire([name], LEASE_MS),
    release: (lock) => lock.release(),
    // Extended as long as the routine runs, which is forever.
    keep: (name) =>
      new Promise((held, failed) => {
        locks.using([name], LEASE_MS, () => new Promise(() => held())).catch(failed);
      }),
  };
}

async function semaphore() {
  const { Mutex } = await import('redis-semaphore');
  const acquire = async (name) => {
    const mutex = new Mutex(client, name, { lockTimeout: LEASE_MS, acquireTimeout: 3600000 });
    await mutex.acquire();
    return mutex;
  };
  return { acquire, release: (mutex) => mutex.release(), keep: acquire };
}

async function work(peer, number, until, records) {
  const name = options.names === 'one' ? options.name : `${options.name}:${number}`;
  const hold = Number(options.hold_ms);
  const pause = Number(options.pause_ms);
  while (now() < until) {
    const requested = now();
    const lock = await peer.acquire(name);
    const acquired = now();
    if (hold) await sleep(hold * (1 + Math.random() / 4));
    const releasing = now();
    await peer.release(lock);
    records.push([number, requested, acquired, releasing, now()]);
    if (pause) await sleep(pause);
  }
}

async function run(peer) {
  const until = now() + BigInt(Math.round(Number(options.seconds) * 1e9));
  const records = [];
  const workers = Array.from({ length: Number(options.workers) }, (_, i) => work(peer, i, until, records));
  await Promise.all(workers);
  writeFileSync(options.out, records.map((record) => `${record.join(' ')}\n`).join(''));
}

async function hold(peer, lines) {
  const kept = [];
  for (let i = 0; i < Number(options.locks); i++) kept.push(await peer.keep(`${options.name}:${i}`));
  console.log('held');
  await lines.next();
}

const peer = await { redlock, semaphore }[options.peer]();
const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
await peer.release(await peer.acquire(`warm:${process.pid}`));
console.log('ready');
await lines.next();
await (options.mode === 'hold' ? hold(peer, lines) : run(peer));
process.exit(0);
