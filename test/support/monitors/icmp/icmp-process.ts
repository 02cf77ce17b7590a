// Runs ICMP monitors in a process of its own, so that it can stand in another network or be somebody else.
// As a program: `node icmp-process.ts <monitors as JSON>` runs them side by side and prints what came of it.
import { execFile } from 'node:child_process'
import { readdirSync } from 'node:fs'
import { promisify } from 'node:util'
import { icmp } from '../../../../src/monitors/icmp/index.ts'
import type { Observation } from '../../../../src/contract/observation.ts'
import { testContext } from '../monitor-context.ts'

/** Everything of an ICMP monitor that a test cares about. */
export interface IcmpWish {
  request: Record<string, unknown>
  shouldFail?: boolean
  degradedPacketLossThreshold?: number
  maxPacketLossThreshold?: number
}

/** A monitor as the schema makes it. */
export function icmpMonitor(wish: IcmpWish): unknown {
  return icmp.schema.parse({ id: 'one', name: 'one', checkType: 'ICMP', ...wish })
}

const run = promisify(execFile)

/** Runs the monitors in a process behind the prefix (a namespace, another user). */
export async function observeElsewhere(
  prefix: readonly string[],
  options: readonly IcmpWish[],
): Promise<Observation[]> {
  const file = new URL(import.meta.url).pathname
  const [program, ...args] = [...prefix, process.execPath, file, JSON.stringify(options)]
  const { stdout } = await run(program, args, { maxBuffer: 64 * 1024 * 1024 })
  return JSON.parse(stdout) as Observation[]
}

/** Sockets that this process has open. */
export function openSockets(): number {
  return readdirSync('/proc/self/fd').length
}

if (process.argv[1] === new URL(import.meta.url).pathname) {
  const options = JSON.parse(process.argv[2] ?? '[]') as IcmpWish[]
  const observations = await Promise.all(
    options.map((wish) => icmp.prepare(icmpMonitor(wish))(testContext())),
  )
  process.stdout.write(JSON.stringify(observations))
}
