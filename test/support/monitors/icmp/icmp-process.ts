// Runs ICMP monitors in a separate process, which can have another network or user.
// As a program: `node icmp-process.ts <monitors as JSON>` runs them concurrently and prints their observations.
import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { icmp } from '../../../../src/monitors/icmp/index.ts'
import type { Observation } from '../../../../src/contract/observation.ts'
import { testContext } from '../monitor-context.ts'

/** The fields of an ICMP monitor that tests set. */
export interface IcmpOptions {
  request: Record<string, unknown>
  shouldFail?: boolean
  degradedPacketLossThreshold?: number
  maxPacketLossThreshold?: number
}

/** A monitor as the schema makes it. */
export function icmpMonitor(one: IcmpOptions): unknown {
  return icmp.schema.parse({ id: 'one', name: 'one', checkType: 'ICMP', ...one })
}

const run = promisify(execFile)

/** Runs the monitors in a process behind the prefix (a namespace, another user). */
export async function observeElsewhere(
  prefix: readonly string[],
  options: readonly IcmpOptions[],
): Promise<Observation[]> {
  const file = new URL(import.meta.url).pathname
  const [program, ...args] = [...prefix, process.execPath, file, JSON.stringify(options)]
  const { stdout } = await run(program, args, { maxBuffer: 64 * 1024 * 1024 })
  return JSON.parse(stdout) as Observation[]
}

if (process.argv[1] === new URL(import.meta.url).pathname) {
  const options = JSON.parse(process.argv[2] ?? '[]') as IcmpOptions[]
  const observations = await Promise.all(
    options.map((one) => icmp.prepare(icmpMonitor(one))(testContext())),
  )
  process.stdout.write(JSON.stringify(observations))
}
