// Probes the health port at its address: whether it is free, or which program listens on it.
import * as z from 'zod'
import type { AgentConfig } from '../../agent/config.ts'
import { isNoAddress, portProblem, urlHost } from '../../process/serve.ts'
import type { Finding } from './finding.ts'

const ANSWER_MS = 3000
const ANSWER_BYTES_MAX = 65_536

/** Probes the port: free, in use by an agent, or by another program. */
export async function probeHealthPort(
  { healthPort: port, healthHost: host }: Pick<AgentConfig, 'healthPort' | 'healthHost'>,
  signal: AbortSignal,
): Promise<Finding[]> {
  const problem = await portProblem(port, host)
  if (port === 0 && problem === undefined) {
    return [{ id: 'health-port', standing: 'works', says: 'any free port' }]
  }
  if (problem === undefined) {
    return [{ id: 'health-port', standing: 'works', says: `${port} is free`, facts: { port } }]
  }
  const readiness = problem === 'EADDRINUSE' ? await askReadiness(port, host, signal) : undefined
  if (readiness !== undefined) return [agentThere(port, readiness)]
  if (isNoAddress(problem)) {
    const says = `this machine has no address ${host}`
    const fix = 'set AGENT_HEALTH_HOST to an address that it has, or to nothing for all'
    return [{ id: 'health-port', standing: 'broken', says, fix, facts: { host, problem } }]
  }
  const free = port < 1024 ? 8081 : port + 1
  const says =
    problem === 'EADDRINUSE'
      ? `port ${port} is in use by another program`
      : `port ${port}: ${problem}`
  const fix = `set AGENT_HEALTH_PORT=${free}`
  return [{ id: 'health-port', standing: 'broken', says, fix, facts: { port, problem } }]
}

function agentThere(port: number, { status, reasons }: Readiness): Finding {
  const facts = { port, status, reasons }
  const says = `an agent runs on ${port}: ${status}`
  if (status === 'ready') return { id: 'health-port', standing: 'works', says, facts }
  const why = `${says}: ${reasons.join('; ')}`
  return { id: 'health-port', standing: 'warning', says: why, facts }
}

const Readiness = z.object({
  status: z.enum(['ready', 'not ready']),
  reasons: z.array(z.string()),
})
type Readiness = z.infer<typeof Readiness>

/** The readiness of an agent on the port; undefined if no agent answers. */
async function askReadiness(
  port: number,
  host: string | undefined,
  signal: AbortSignal,
): Promise<Readiness | undefined> {
  const limit = AbortSignal.any([signal, AbortSignal.timeout(ANSWER_MS)])
  try {
    const { body } = await fetch(`http://${urlHost(host)}:${port}/-/readiness`, {
      signal: limit,
    })
    const pieces: Uint8Array[] = []
    let bytes = 0
    for await (const piece of body ?? []) {
      pieces.push(piece as Uint8Array)
      bytes += (piece as Uint8Array).length
      if (bytes > ANSWER_BYTES_MAX) return undefined
    }
    return Readiness.parse(JSON.parse(Buffer.concat(pieces).toString()))
  } catch {
    return undefined
  }
}
