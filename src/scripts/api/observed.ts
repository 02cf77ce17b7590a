// Observation of the scripts of an API monitor, as results report it.
import type { SandboxUsage } from '../../sandbox/request.ts'
import type { OutputStream } from '../../sandbox/run.ts'
import type { RefusedConnection } from '../../sandbox/egress/refused-connections.ts'

/** A script that ran. */
export interface ApiScriptObserved {
  durationMs: number
  /** What ended it before its end. */
  error?: string
}

/** What the scripts of one attempt did. */
export interface ApiScriptsObserved {
  runtime: string
  setUp?: ApiScriptObserved
  tearDown?: ApiScriptObserved
  /** What they wrote. */
  console: { type: OutputStream; text: string }[]
  /** Lines that were too many. */
  consoleLeftOut?: number
  /** What they were handed less than there was. */
  notes?: string[]
  /** Connections that the network policy forbids, and those that failed in the run's proxy, where it has one. */
  refused?: RefusedConnection[]
  usage?: Pick<SandboxUsage, 'cpuMs' | 'peakMemoryBytes' | 'processesMax'>
}

const LINES_MAX = 300
const LINE_CHARS_MAX = 2000
const CHARS_MAX = 65_536

/** Gathers what scripts write, line by line, as far as there is room for it. */
export class ScriptConsole {
  readonly lines: ApiScriptsObserved['console'] = []
  leftOut = 0
  #room = CHARS_MAX
  readonly #begun: Record<OutputStream, string> = { stdout: '', stderr: '' }
  readonly #decoders = { stdout: new TextDecoder(), stderr: new TextDecoder() }

  add(chunk: Buffer, type: OutputStream): void {
    const text = this.#begun[type] + this.#decoders[type].decode(chunk, { stream: true })
    const lines = text.split('\n')
    this.#begun[type] = (lines.pop() ?? '').slice(0, LINE_CHARS_MAX)
    for (const line of lines) this.#addBounded(type, line)
  }

  /** Takes what no line end has come for. */
  end(): void {
    for (const type of ['stdout', 'stderr'] as const) {
      if (this.#begun[type] !== '') this.#addBounded(type, this.#begun[type])
      this.#begun[type] = ''
    }
  }

  #addBounded(type: OutputStream, line: string): void {
    const text = line.slice(0, Math.min(LINE_CHARS_MAX, this.#room))
    if (this.lines.length >= LINES_MAX || (text === '' && line !== '')) {
      this.leftOut++
      return
    }
    this.#room -= text.length
    this.lines.push({ type, text })
  }
}
