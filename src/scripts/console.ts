// Console of user code: what its processes write, line by line, as far as there is room for it.
import { excerpt } from '../contract/failure.ts'
import type { OutputStream } from '../sandbox/request.ts'

/** A line that the script or a page wrote. */
export interface ConsoleLine {
  /** `stdout` or `stderr` of the script; what the browser calls it for a page. */
  type: string
  text: string
}

const LINES_MAX = 300
const LINE_CHARS_MAX = 2000

export class ScriptConsole {
  readonly lines: ConsoleLine[] = []
  /** Lines that are not shown. */
  leftOut = 0
  #room: number
  readonly #begun: Record<OutputStream, string> = { stdout: '', stderr: '' }
  readonly #decoders = { stdout: new TextDecoder(), stderr: new TextDecoder() }

  constructor(charsMax = Infinity) {
    this.#room = charsMax
  }

  add(chunk: Buffer | string, type: OutputStream): void {
    const piece =
      typeof chunk === 'string' ? chunk : this.#decoders[type].decode(chunk, { stream: true })
    const lines = (this.#begun[type] + piece).split('\n')
    // One more than fits shows that it is cut.
    this.#begun[type] = (lines.pop() ?? '').slice(0, LINE_CHARS_MAX + 1)
    for (const line of lines) this.#addLine(type, line)
  }

  /** Takes lines that have no end. */
  end(): void {
    for (const type of ['stdout', 'stderr'] as const) {
      this.#addLine(type, this.#begun[type])
      this.#begun[type] = ''
    }
  }

  /** Shows none of it. */
  hide(): void {
    this.leftOut += this.lines.length
    this.lines.length = 0
  }

  #addLine(type: OutputStream, line: string): void {
    if (line === '') return
    if (this.lines.length >= LINES_MAX || this.#room <= 0) {
      this.leftOut++
      return
    }
    const text = excerpt(line, Math.min(LINE_CHARS_MAX, this.#room))
    this.#room -= text.length
    this.lines.push({ type, text })
  }
}
