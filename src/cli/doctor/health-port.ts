// Probes the health port: whether it is free, or which program listens on it.
import { get } from 'node:http'
import { createServer } from 'node:net'
import type { Finding } from './finding.ts'
import { FIXES } from './fixes.ts'

const ANSWER_MS = 3000
const ANSWER_CHARS_MAX = 65_536

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

interface Readiness {
  status: string
  reasons: string[]
}

/** The readiness of an agent on the port; undefined if no agent answers. */
function askReadiness(port: number, signal: AbortSignal): Promise<Readiness | undefined> {
  return new Promise((resolve) => {
    const options = {
      port,
      host: '127.0.0.1',
      path: '/-/readiness',
      timeout: ANSWER_MS,
      agent: false,
    }
    const request = get({ ...options, signal }, (response) => {
      let text = ''
      response.setEncoding('utf8')
      response.on('data', (chunk: string) => {
        text += chunk
        if (text.length > ANSWER_CHARS_MAX) request.destroy()
      })
      response.on('close', () => resolve(readinessIn(text)))
      response.on('error', () => resolve(undefined))
    })
    const timer = setTimeout(() => request.destroy(), ANSWER_MS)
    request.on('close', () => clearTimeout(timer))
    request.on('error', () => resolve(undefined))
  })
}

function readinessIn(text: string): Readiness | undefined {
  try {
    const { status, reasons } = JSON.parse(text) as Partial<Readiness>
    const isAgents = (status === 'ready' || status === 'not ready') && Array.isArray(reasons)
    return isAgents ? { status, reasons: reasons.map(String) } : undefined
  } catch {
    return undefined
  }
}
