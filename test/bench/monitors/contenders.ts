// The contenders of the benches of monitors, measured in turn: the agent's whole path from a job to a scrubbed result,
// the minimal check in Node.js, and blackbox_exporter with the answer to the scrape that asks for the probe.
import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import type { Exporter } from '../../support/monitors/blackbox-exporter.ts'
import { cpuMsOf, median } from '../process-figures.ts'

/** Checks at a time. */
export const CONCURRENCY = 8
const SOAK = 100_000

const run = promisify(execFile)
const child = new URL('child.ts', import.meta.url).pathname
/** The flags with which src/launch.js runs the agent, and `gc` for the measurement of memory. */
const FLAGS = ['--max-semi-space-size=12', '--heap-growing-percent=30', '--expose-gc']

/** A definition of a monitor, or a minimal check on a port of loopback. */
export type Contender =
  | { checkType: string; request: object; [field: string]: unknown }
  | { bare: 'http' | 'tcp' | 'tls'; port: number; ca: string }

/** Memory and descriptors after a garbage collection. */
export interface Resources {
  memoryMiB: number
  heapMiB: number
  descriptors: number
}

/** Runs a contender in a process of its own. */
export async function inChild<T>(
  what: 'cost' | 'soak' | 'observe',
  contender: Contender,
  count: number,
): Promise<T> {
  const args = [...FLAGS, child, what, JSON.stringify(contender), String(count)]
  return JSON.parse((await run(process.execPath, args)).stdout) as T
}

/** CPU time of so many checks by a contender. Milliseconds. */
export const cpuMs = (contender: Contender, count: number) =>
  inChild<number>('cost', contender, count)

/** CPU time of so many probes by the exporter. Milliseconds. */
export async function exporterCpuMs(
  exporter: Exporter,
  module: string,
  target: string,
  count: number,
): Promise<number> {
  const before = cpuMsOf(exporter.pid)
  let left = count
  const worker = async () => {
    while (left-- > 0) await exporter.probe(module, target)
  }
  await Promise.all(Array.from({ length: CONCURRENCY }, worker))
  return cpuMsOf(exporter.pid) - before
}

/** CPU times of contenders, by round. */
export interface Comparison {
  /** Checks per CPU-second: the median of the rounds. */
  perSecond: (at: number) => number
  /** How many times as fast as the other: the median of the ratios by round. */
  ratio: (at: number, other: number) => number
}

/** Measures the CPU time of `count` checks of each contender, in turn. */
export async function compare(
  contenders: readonly (() => Promise<number>)[],
  count: number,
  rounds = 5,
): Promise<Comparison> {
  const measured: number[][] = []
  for (let round = 0; round < rounds; round++) {
    const figures: number[] = []
    for (const contender of contenders) figures.push(await contender())
    measured.push(figures)
  }
  const of = (figures: number[], at: number) => figures.at(at) ?? Number.NaN
  return {
    perSecond: (at) => Math.round(median(measured.map((one) => (count * 1000) / of(one, at)))),
    ratio: (at, other) => median(measured.map((one) => of(one, other) / of(one, at))),
  }
}

/** The resources of a long run, as a line. */
export async function soakText(what: string, contender: Contender): Promise<string> {
  const [early, late] = await inChild<[Resources, Resources]>('soak', contender, SOAK)
  const shown = ({ memoryMiB, heapMiB, descriptors }: Resources) =>
    `${memoryMiB} MiB resident, ${heapMiB} MiB of objects and ${descriptors} descriptors`
  return `${SOAK.toLocaleString('en')} ${what}: ${shown(early)} after the first tenth, ${shown(late)} at the end\n`
}
