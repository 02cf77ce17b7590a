// Probes the health port: whether it is free, or which program listens on it.
import { createServer } from 'node:net'
import * as z from 'zod'
import type { Finding } from './finding.ts'
import { FIXES } from './fixes.ts'

const ANSWER_MS = 3000
const ANSWER_BYTES_MAX = 65_536

/** Probes the port: free, in use by an agent, or by another program. */
export async function probeHealthPort(port: number, signal: AbortSignal): Promise<Finding[]> {
  if (port === 0) return [{ id: 'health-port', standing: 'works', says: 'any free one' }]
  const problem = await listenProblem(port)
  if (problem === undefined) {
    return [{ id: 'health-port', standing: 'works', says: `${port} is free`, facts: { port } }]
  }
  const readiness = problem === 'EADDRINUSE' ? await askReadiness(port, signal) : undefined
  if (readiness !== undefined) return [agentThere(port, readiness)]
  const free = port < 1024 ? 8081 : port + 1
  const says =
    problem === 'EADDRINUSE' ? `another program has port ${port}` : `port ${port}: ${problem}`
  const fix = FIXES.variable('AGENT_HEALTH_PORT', String(free))
  return [{ id: 'health-port', standing: 'broken', says, fix, facts: { port, problem } }]
}

function agentThere(port: number, { status, reasons }: Readiness): Finding {
  const facts = { port, status, reasons }
  const says = `an agent runs on ${port}: ${status}`
  if (status === 'ready') return { id: 'health-port', standing: 'works', says, facts }
  const why = `${says}: ${reasons.join('; ')}`
  return { id: 'health-port', standing: 'warning', says: why, facts }
}

/** Listens for a moment, as the agent would; the code of the error, or undefined. */
function listenProblem(port: number): Promise<string | undefined> {
  const server = createServer()
  return new Promise((resolve) => {
    server.once('error', (error: NodeJS.ErrnoException) => resolve(error.code ?? error.message))
    server.listen({ port, exclusive: true }, () => server.close(() => resolve(undefined)))
  })
}

const Readiness = z.object({
  status: z.enum(['ready', 'not ready']),
  reasons: z.array(z.string()),
})
type Readiness = z.infer<typeof Readiness>

/** The readiness of an agent on the port; undefined if no agent answers. */
async function askReadiness(port: number, signal: AbortSignal): Promise<Readiness | undefined> {
  const limit = AbortSignal.any([signal, AbortSignal.timeout(ANSWER_MS)])
  try {
    const { body } = await fetch(`http://127.0.0.1:${port}/-/readiness`, { signal: limit })
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
