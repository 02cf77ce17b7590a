// A check suite on a terminal while it runs: a line for each attempt at a test, then what failed and why.
import { counted } from '../../contract/schema/amounts.ts'
import type { Result } from '../../contract/result.ts'
import type { PlaywrightEvent } from '../../scripts/playwright/events.ts'
import { printable, verdictLabel } from './result-text.ts'

type Event<E extends PlaywrightEvent['event']> = PlaywrightEvent & { event: E }

/** Prints a run as it happens. */
export class SuiteLive {
  readonly #write: (text: string) => void
  readonly #colour: boolean
  readonly #tests = new Map<string, Event<'test'>>()
  readonly #errors: string[] = []
  readonly #lastWhy = new Map<string, string>()

  constructor(write: (text: string) => void, colour: boolean) {
    this.#write = write
    this.#colour = colour
  }

  event(event: PlaywrightEvent): void {
    if (event.event === 'begin') this.#begin(event)
    else if (event.event === 'test') this.#tests.set(event.id, event)
    else if (event.event === 'end') this.#end(event)
    else if (event.event === 'error') this.#errors.push(event.error.message)
  }

  /** What went wrong. */
  closing({ failures, observed }: Result): string {
    const details = this.#errors.map((text) => `\n${indented(text)}\n`)
    const { notes = [], artifactsLeftOut = [] } = observed as Record<string, string[]>
    return [
      ...details,
      '\n',
      ...notes.map((note) => `note: ${printable(note)}\n`),
      ...artifactsLeftOut.map((file) => `left out: ${printable(file)}\n`),
      ...failures.map(({ code, message }) => `${code}: ${indented(message).trimStart()}\n`),
    ].join('')
  }

  /** The last line: the verdict and numbers, which hold no secret. */
  summary({ verdict, durationMs, observed }: Result): string {
    const stats = (observed['stats'] ?? {}) as Record<string, number>
    const counts = Object.entries(COUNTED)
      .filter(([key]) => (stats[key] ?? 0) > 0)
      .map(([key, label]) => `${stats[key]} ${label}`)
    const seconds = `${(durationMs / 1000).toFixed(1)} s`
    return `${verdictLabel(verdict, this.#colour, 0)}: ${[...counts, seconds].join(', ')}\n`
  }

  #begin({ tests, workers, playwright }: Event<'begin'>): void {
    const of = playwright === undefined ? '' : `, Playwright ${playwright}`
    this.#write(`${counted(tests, 'test')} with ${counted(workers ?? 1, 'worker')}${of}\n`)
  }

  #end({ id, status, retry, ms, errors, outcome }: Event<'end'>): void {
    const test = this.#tests.get(id)
    if (test === undefined) return
    const name = [test.project, `${test.file}:${test.line}`, ...test.titles]
    const line = name.filter((part) => part !== '').join(' › ')
    const again = retry === 0 ? '' : ` (retry ${retry})`
    // A test may say while it runs that it is expected to fail: its outcome knows.
    const isCut = status === 'interrupted'
    const isGood = !isCut && (outcome !== 'unexpected' || status === test.expectedStatus)
    const sign = status === 'skipped' ? '-' : isGood ? '✓' : '✗'
    const text = `  ${sign} ${printable(line)}${again} ${(ms / 1000).toFixed(1)} s`
    const coloured = `\u001B[${isGood ? '32' : '31'}m${text}\u001B[0m`
    this.#write(`${this.#colour ? coloured : text}\n`)
    if (isGood || isCut) return
    const why = errors
      .map(({ message, snippet }) => `${withoutBox(message)}\n${snippet ?? ''}`.trimEnd())
      .join('\n')
    const isSame = retry > 0 && this.#lastWhy.get(id) === why
    this.#lastWhy.set(id, why)
    this.#errors.push(`${line}${again}\n${isSame ? 'the same' : why}`)
  }
}

/** Playwright's boxed text explains how to download browsers, which a run cannot do. */
function withoutBox(message: string): string {
  return message.replaceAll(/\n[╔║╚].*/g, '')
}

const COUNTED: Readonly<Record<string, string>> = {
  expected: 'passed',
  flaky: 'flaky',
  unexpected: 'failed',
  skipped: 'skipped',
  unfinished: 'unfinished',
}

function indented(text: string): string {
  return text
    .split('\n')
    .map((line) => `  ${printable(line)}`)
    .join('\n')
}
