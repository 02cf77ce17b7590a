// Observation of a browser or multistep monitor: steps, console, pages with their errors and vitals,
// network entries; bounded, so that a script of any kind makes a result that can be sent.
import { toMicroseconds } from '../contract/schema/duration.ts'
import { type ConsoleLine, ScriptConsole } from './console.ts'
import type { EventOf, PageEvent, RunError } from './playwright/events.ts'
import type { PlaywrightReport, TestStep } from './playwright/report.ts'
import type { PlaywrightRun } from './playwright/run.ts'
import { type RefusedConnection, refusedConnections } from '../sandbox/egress/egress.ts'

export interface ScriptTest {
  title: string
  /** `passed`, `failed`, `timedOut`, `skipped`, `interrupted`; absent when the run ended before it did. */
  status?: string
  durationMs: number
  steps: TestStep[]
  errors: RunError[]
}

export interface ScriptPage {
  /** In the order in which they were observed. */
  page: number
  console: (ConsoleLine & { url?: string; line?: number })[]
  errors: { message: string; stack?: string }[]
  /** Of each document that the page showed, as far as it was shown. Milliseconds; `cls` is a number. */
  vitals: Omit<EventOf<'vitals'>, 'event' | 'page' | 'more'>[]
}

export interface ScriptObserved {
  runtime: string
  playwright?: string
  browser?: string
  tests: ScriptTest[]
  console: ConsoleLine[]
  pages: ScriptPage[]
  network: Omit<EventOf<'network'>, 'event' | 'more'>[]
  /** Why the script marked its check as degraded. */
  degradedReasons?: string[]
  /** Connections that the network policy forbids, and those that failed in the run's proxy, where it has one. */
  refused?: RefusedConnection[]
  usage: { cpuMs: number; peakMemoryBytes: number; processesMax: number }
  /** Lines, entries and the like that were too many. */
  leftOut?: number
  notes?: string[]
}

const NETWORK_MAX = 500
const PAGES_MAX = 50
const PER_PAGE_MAX = 100
const STEPS_MAX = 300
const TEXT_CHARS_MAX = 2000

/** Gathers what happens into an observation. */
export class ScriptWatch {
  readonly console = new ScriptConsole()
  readonly #network: ScriptObserved['network'] = []
  readonly #pages = new Map<number, ScriptPage>()
  #leftOut = 0
  /** The error that ended a plain script. */
  scriptError: EventOf<'script-error'> | undefined

  addPage(event: PageEvent): void {
    if ('more' in event && event.more === true) this.#leftOut++
    switch (event.event) {
      case 'network': {
        const { event: _, more: __, ...entry } = event
        this.#addBounded(this.#network, { ...entry, ms: toMicroseconds(entry.ms) }, NETWORK_MAX)
        break
      }
      case 'console': {
        const { event: _, more: __, page, text, type, url, line } = event
        const said = { type, text: text.slice(0, TEXT_CHARS_MAX) }
        const where = url === undefined || line === undefined ? {} : { url, line }
        this.#addBounded(this.#page(page)?.console, { ...said, ...where }, PER_PAGE_MAX)
        break
      }
      case 'page-error': {
        const { message, stack } = event
        const error = stack === undefined ? { message } : { message, stack }
        this.#addBounded(this.#page(event.page)?.errors, error, PER_PAGE_MAX)
        break
      }
      case 'vitals':
        this.#vitals(event)
        break
      case 'script-error':
      default:
        this.scriptError = event
    }
  }

  observed(
    about: Pick<ScriptObserved, 'runtime'> & Partial<ScriptObserved>,
    { report, end, refusals }: PlaywrightRun,
  ): ScriptObserved {
    this.console.end()
    const { cpuMs, peakMemoryBytes, processesMax } = end.usage
    const { playwrightVersion } = report
    const leftOut = this.#leftOut + this.console.leftOut + report.leftOut
    const refused = refusedConnections(refusals, end.blocked)
    return {
      ...about,
      ...(playwrightVersion === undefined ? {} : { playwright: playwrightVersion }),
      tests: report.tests.flatMap(scriptTests),
      console: this.console.lines,
      pages: [...this.#pages.values()],
      network: this.#network,
      usage: { cpuMs, peakMemoryBytes, processesMax },
      ...(refused.length === 0 ? {} : { refused }),
      ...(leftOut === 0 ? {} : { leftOut }),
    }
  }

  /** The newest event about a document counts. */
  #vitals(vitalsEvent: EventOf<'vitals'>): void {
    const { event: _, more: __, page, ...vitals } = vitalsEvent
    const documents = this.#page(page)?.vitals
    const rounded = Object.fromEntries(
      Object.entries(vitals).map(([name, value]) => [
        name,
        typeof value === 'number' ? toMicroseconds(value) : value,
      ]),
    ) as typeof vitals
    if (documents?.at(-1)?.url === vitals.url) documents.splice(-1, 1, rounded)
    else this.#addBounded(documents, rounded, PER_PAGE_MAX)
  }

  #page(page: number): ScriptPage | undefined {
    const known = this.#pages.get(page)
    if (known !== undefined || this.#pages.size >= PAGES_MAX) return known
    const made: ScriptPage = { page, console: [], errors: [], vitals: [] }
    this.#pages.set(page, made)
    return made
  }

  #addBounded<T>(list: T[] | undefined, one: T, most: number): void {
    if (list !== undefined && list.length < most) list.push(one)
    else this.#leftOut++
  }
}

function scriptTests({ title, attempts }: PlaywrightReport['tests'][number]): ScriptTest[] {
  return attempts.map(({ status, durationMs, steps, errors }) => ({
    title,
    ...(status === undefined ? {} : { status }),
    durationMs,
    steps: steps.slice(0, STEPS_MAX),
    errors,
  }))
}

/** The observation with its lists cut to what fits into so many bytes of JSON. */
export function fitObserved(observed: ScriptObserved, bytesMax: number): ScriptObserved {
  for (const share of [1, 0.5, 0.25, 0.1, 0.02]) {
    const cut = share === 1 ? observed : shortened(observed, share)
    if (Buffer.byteLength(JSON.stringify(cut)) <= bytesMax) return cut
  }
  return { ...observed, tests: [], console: [], pages: [], network: [], leftOut: 1 }
}

/** The first ones of each list; of what a script says and sends, the last ones matter as well. */
function shortened(observed: ScriptObserved, share: number): ScriptObserved {
  let leftOut = observed.leftOut ?? 0
  const cut = <T>(list: readonly T[]): T[] => {
    const most = Math.ceil(list.length * share)
    leftOut += list.length - most
    const first = Math.ceil(most / 2)
    return [...list.slice(0, first), ...list.slice(list.length - (most - first))]
  }
  const short = (one: RunError): RunError => ({ ...one, stack: one.stack?.slice(0, 1000) })
  return {
    ...observed,
    network: cut(observed.network),
    console: cut(observed.console),
    pages: cut(observed.pages).map((page) => ({
      ...page,
      console: cut(page.console),
      errors: cut(page.errors),
      vitals: cut(page.vitals),
    })),
    tests: cut(observed.tests).map((one) => ({
      ...one,
      steps: cut(one.steps),
      errors: cut(one.errors).map(short),
    })),
    leftOut,
  }
}
