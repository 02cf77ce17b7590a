// What monitors measured, for Prometheus: the newest numbers of each, stored as bare arrays and turned
// into text only for a scrape, a slice at a time.
import { setImmediate as nextTurn } from 'node:timers/promises'
import type { Result } from '../contract/result.ts'
import type { Sample } from '../contract/observation.ts'

/** The newest numbers of all monitors. */
export interface MonitorMetrics {
  /**
   * Stores the values of the newest run. `probe_success` is 1 for passed and degraded, 0 for failed,
   * and absent for everything that says nothing about the target.
   */
  record(result: Result, samples: readonly Sample[]): void
  /** Forgets all monitors but these. */
  keepOnly(ids: ReadonlySet<string>): void
  /** Prometheus text format 0.0.4, in pieces between which other work gets its turn. */
  text(): AsyncGenerator<string, void, undefined>
}

/** Which numbers a run gave: the same for all runs of a type, so that thousands share one. */
interface Shape {
  names: readonly string[]
  labels: readonly Sample['labels'][]
  /** Family → places of its numbers and the text of their labels. */
  families: Map<string, { at: number; labels: string }[]>
}

interface Newest {
  labels: string
  verdict: Result['verdict']
  durationMs: number
  shape: Shape
  values: number[]
}

const SUCCESS = {
  name: 'probe_success',
  help: 'Whether the newest run passed; absent when it says nothing about the target.',
}
const DURATION = {
  name: 'probe_duration_seconds',
  help: 'How long the newest run took, with its retries.',
}

/** Lines between two turns of the event loop: some tenths of a millisecond. */
const LINES_AT_ONCE = 500
/** Shapes that are shared; monitors beyond that have their own. */
const SHAPES_MAX = 1000

/** Makes the collection; `help` says what a family of samples means. */
export function createMonitorMetrics(help: ReadonlyMap<string, string>): MonitorMetrics {
  const newest = new Map<string, Newest>()
  const shapes = new Map<string, Shape>()

  const shapeOf = (samples: readonly Sample[]): Shape => {
    const key = JSON.stringify(samples.map(({ name, labels }) => [name, labels]))
    let shape = shapes.get(key)
    if (shape === undefined) {
      shape = makeShape(samples)
      if (shapes.size >= SHAPES_MAX) shapes.clear()
      shapes.set(key, shape)
    }
    return shape
  }

  return {
    record(result, samples) {
      const { verdict, durationMs } = result
      const known = newest.get(result.monitorId)
      const shape =
        known !== undefined && fits(known.shape, samples) ? known.shape : shapeOf(samples)
      const labels = labelsOf(result)
      const values = samples.map(({ value }) => value)
      const same = known?.labels === labels ? known.labels : labels
      newest.set(result.monitorId, { labels: same, verdict, durationMs, shape, values })
    },
    keepOnly(ids) {
      for (const id of newest.keys()) if (!ids.has(id)) newest.delete(id)
    },
    text: () => render([...newest.values()], help),
  }
}

function makeShape(samples: readonly Sample[]): Shape {
  const families = new Map<string, { at: number; labels: string }[]>()
  for (const [at, { name, labels }] of samples.entries()) {
    const lines = families.get(name) ?? []
    lines.push({ at, labels: labelText(labels ?? {}) })
    families.set(name, lines)
  }
  return {
    names: samples.map(({ name }) => name),
    labels: samples.map(({ labels }) => labels),
    families,
  }
}

function fits(shape: Shape, samples: readonly Sample[]): boolean {
  if (shape.names.length !== samples.length) return false
  return samples.every(
    ({ name, labels }, at) => name === shape.names[at] && sameLabels(labels, shape.labels[at]),
  )
}

function sameLabels(a: Sample['labels'], b: Sample['labels']): boolean {
  if (a === b) return true
  if (a === undefined || b === undefined) return false
  const keys = Object.keys(a)
  return keys.length === Object.keys(b).length && keys.every((key) => a[key] === b[key])
}

function labelsOf({ monitorId, monitorName, checkType, location }: Result): string {
  return labelText({ monitor: monitorId, name: monitorName, type: checkType, location })
}

function labelText(labels: Readonly<Record<string, string>>): string {
  return Object.entries(labels)
    .map(([name, value]) => `${name}="${escaped(value)}"`)
    .join(',')
}

const ESCAPES: Readonly<Record<string, string>> = { '\\': '\\\\', '"': '\\"', '\n': '\\n' }

function escaped(value: string): string {
  return value.replaceAll(/[\\"\n]/g, (character) => ESCAPES[character] ?? character)
}

async function* render(
  monitors: readonly Newest[],
  help: ReadonlyMap<string, string>,
): AsyncGenerator<string, void, undefined> {
  yield* family(SUCCESS.name, SUCCESS.help, monitors, successLine)
  yield* family(DURATION.name, DURATION.help, monitors, durationLine)
  const shapes = new Set(monitors.map(({ shape }) => shape))
  const names = new Set([...shapes].flatMap(({ families }) => [...families.keys()]))
  for (const name of [...names].sort()) {
    yield* family(name, help.get(name) ?? '', monitors, (one) => sampleLines(name, one))
  }
}

/** All lines of one family; they must stand together, under one HELP and TYPE. */
async function* family(
  name: string,
  help: string,
  monitors: readonly Newest[],
  linesOf: (one: Newest) => string,
): AsyncGenerator<string, void, undefined> {
  let lines = `# HELP ${name} ${help}\n# TYPE ${name} gauge\n`
  let any = false
  for (const [index, one] of monitors.entries()) {
    const own = linesOf(one)
    if (own !== '') any = true
    lines += own
    if (index % LINES_AT_ONCE !== LINES_AT_ONCE - 1) continue
    if (any) {
      yield lines
      lines = ''
    }
    await nextTurn()
  }
  if (any && lines !== '') yield lines
}

function successLine({ verdict, labels }: Newest): string {
  if (verdict === 'failed') return `probe_success{${labels}} 0\n`
  const success = verdict === 'passed' || verdict === 'degraded'
  return success ? `probe_success{${labels}} 1\n` : ''
}

function durationLine({ durationMs, labels }: Newest): string {
  return `${DURATION.name}{${labels}} ${durationMs / 1000}\n`
}

function sampleLines(name: string, { shape, labels, values }: Newest): string {
  let lines = ''
  for (const { at, labels: own } of shape.families.get(name) ?? []) {
    const all = own === '' ? labels : `${labels},${own}`
    lines += `${name}{${all}} ${numberText(values[at] ?? Number.NaN)}\n`
  }
  return lines
}

function numberText(value: number): string {
  if (Number.isFinite(value)) return String(value)
  if (Number.isNaN(value)) return 'NaN'
  return value > 0 ? '+Inf' : '-Inf'
}
