// The real program as a separate process: started on a monitors file, read by its log, ended by signals.
import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { afterAll } from 'vitest'
import type { Result } from '../../../src/contract/result.ts'
import { eventually } from '../eventually.ts'
import { temporaryFile } from '../temporary-folder.ts'

/** A line of the agent's log. */
export type LogLine = Record<string, unknown> & { msg?: string }

export interface AgentProcess {
  child: ChildProcess
  lines: LogLine[]
  /** The first line, past or future, that fits; rejects when the process ends without one. */
  line(fits: (line: LogLine) => boolean): Promise<LogLine>
  /** The results in its log, of one monitor or of all. */
  results(monitorId?: string): Result[]
  /** Resolves when the process has ended. */
  ended: Promise<{ code: number | null; signal: NodeJS.Signals | null; stderr: string }>
  /** Sends a signal; resolves when the process has ended. */
  stop(signal?: NodeJS.Signals): AgentProcess['ended']
}

/** An agent that serves. */
export interface StartedAgent extends AgentProcess {
  url: string
}

const program = fileURLToPath(new URL('../../../src/launch.js', import.meta.url))

/** A file with these monitors, for agents. */
export function monitorsFile(monitors: readonly object[]): string {
  return temporaryFile('monitors.yaml', JSON.stringify({ monitors }))
}

const agents: AgentProcess[] = []
// Temporary folders are removed after that: hooks run in the reverse order.
afterAll(() => Promise.all(agents.splice(0).map((agent) => agent.stop('SIGKILL'))))

/** Starts `vedette agent` and waits until it serves; rejects with what it wrote when it ends before. */
export async function startAgentProcess(
  env: Record<string, string>,
  prefix?: readonly string[],
): Promise<StartedAgent> {
  const agent = launchAgentProcess(env, prefix)
  const started = await agent.line(({ msg }) => msg === 'agent started')
  return { ...agent, url: String(started['url']) }
}

/**
 * Starts `vedette agent`, which may end before it serves; `prefix` is put before its command line. It is killed at
 * the end of the test file at the latest.
 */
export function launchAgentProcess(
  env: Record<string, string>,
  prefix: readonly string[] = [],
): AgentProcess {
  const command = [...prefix, process.execPath, program, 'agent']
  const child = spawn(command[0] ?? '', command.slice(1), {
    env: { PATH: process.env['PATH'], AGENT_HEALTH_PORT: '0', LOG_RESULTS: 'all', ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  const lines: LogLine[] = []
  createInterface({ input: child.stdout }).on('line', (text) => {
    lines.push(JSON.parse(text) as LogLine)
  })
  let stderr = ''
  let isOver = false
  child.stderr.on('data', (text: Buffer) => (stderr += text.toString()))
  const ended = once(child, 'close').then(([code, signal]) => {
    isOver = true
    return { code: code as number | null, signal: signal as NodeJS.Signals | null, stderr }
  })
  const line = (fits: (line: LogLine) => boolean): Promise<LogLine> =>
    eventually(
      () => {
        const found = lines.find(fits)
        if (found === undefined && isOver) {
          throw new Error(`the agent ended without the line: ${stderr}`)
        }
        return found
      },
      { everyMs: 5 },
    )
  const agent: AgentProcess = {
    child,
    lines,
    line,
    ended,
    results: (monitorId) =>
      lines
        .flatMap(({ result }) => (result as Result | undefined) ?? [])
        .filter((one) => monitorId === undefined || one.monitorId === monitorId),
    stop(signal = 'SIGTERM') {
      child.kill(signal)
      return ended
    },
  }
  agents.push(agent)
  return agent
}
