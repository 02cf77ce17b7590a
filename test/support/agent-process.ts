// The real program as a process of its own: started on a monitors file, read by its log, ended by signals.
import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'

/** A line of the agent's log. */
export type LogLine = Record<string, unknown> & { msg?: string }

export interface AgentProcess {
  child: ChildProcess
  url: string
  lines: LogLine[]
  /** The first line, past or future, that fits. */
  line(fits: (line: LogLine) => boolean): Promise<LogLine>
  /** Resolves when the process has ended. */
  ended: Promise<{ code: number | null; signal: NodeJS.Signals | null; stderr: string }>
}

const program = fileURLToPath(new URL('../../src/launch.js', import.meta.url))

/** Starts `vedette agent`; resolves when it serves, or when it has ended. */
export async function startAgentProcess(env: Record<string, string>): Promise<AgentProcess> {
  const child = spawn(process.execPath, [program, 'agent'], {
    env: { PATH: process.env['PATH'], AGENT_HEALTH_PORT: '0', LOG_RESULTS: 'all', ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  const lines: LogLine[] = []
  const waiters = new Set<() => void>()
  createInterface({ input: child.stdout }).on('line', (text) => {
    lines.push(JSON.parse(text) as LogLine)
    for (const waiter of waiters) waiter()
  })
  let stderr = ''
  child.stderr.on('data', (text: Buffer) => (stderr += text.toString()))
  const ended = once(child, 'close').then(([code, signal]) => ({
    code: code as number | null,
    signal: signal as NodeJS.Signals | null,
    stderr,
  }))
  const line = (fits: (line: LogLine) => boolean): Promise<LogLine> =>
    new Promise((resolve) => {
      const look = () => {
        const found = lines.find(fits)
        if (found === undefined) return
        waiters.delete(look)
        resolve(found)
      }
      waiters.add(look)
      look()
    })
  const started = await Promise.race([line(({ msg }) => msg === 'agent started'), ended])
  const url = 'url' in started ? String(started['url']) : ''
  return { child, url, lines, line, ended }
}

/** A file in a folder of its own. */
export async function temporaryFile(
  name: string,
  text: string,
): Promise<{ path: string; remove(): Promise<void> }> {
  const folder = await mkdtemp(join(tmpdir(), 'vedette-'))
  const path = join(folder, name)
  await writeFile(path, text)
  return { path, remove: () => rm(folder, { recursive: true, force: true }) }
}
