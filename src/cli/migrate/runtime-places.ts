// Finds where a monitors file names the runtime of each monitor: in the monitor itself, the defaults, its group, an
// anchor or a merged mapping. Replaces it there and leaves every other character unchanged.
import { type Document, isAlias, isScalar, type Scalar, visit } from 'yaml'
import { documentOf } from '../../agent/monitors-file/yaml.ts'
import type { Move } from './migration.ts'

/** One text in the file that names a runtime. */
export interface WrittenRuntime {
  /** Position in the text, in UTF-16 units, including quotes. */
  start: number
  end: number
  /** From 1. */
  line: number
}

const KEY = 'runtimeId'

interface Fields {
  group?: string
  runtimeId?: number | null
}

interface Top {
  monitors: Fields[] | null
  defaults?: Fields | null
  groups?: Record<string, Fields | null> | null
}

/**
 * Reads a text that `readMonitorsFile` has accepted. The result finds the runtime of the monitor at an index of its
 * list; undefined: none is written.
 */
export function findRuntimes(text: string): (index: number) => WrittenRuntime | undefined {
  const document = documentOf(text)
  const written: Scalar[] = []
  visit(document, {
    Pair(_, { key, value }) {
      if (!isScalar(key) || key.value !== KEY) return
      const node = isAlias(value) ? value.resolve(document) : value
      // Its index in place of its text, so that the values below, merged and inherited, lead to the text.
      if (isScalar(node) && typeof node.value === 'string') node.value = written.push(node) - 1
    },
  })
  const top = valuesOf(document)
  const { monitors, defaults, groups } = (Array.isArray(top) ? { monitors: top } : top) as Top
  return (index) => {
    // A field of the monitor's own hides the default, also where it is null.
    const { runtimeId, group = '' } = { ...defaults, ...monitors?.[index] }
    const range = written[runtimeId ?? groups?.[group]?.runtimeId ?? -1]?.range
    if (range === undefined || range === null) return undefined
    const [start, end] = range
    return { start, end, line: text.slice(0, start).split('\n').length }
  }
}

const valuesOf = (document: Document): unknown => document.toJS({ maxAliasCount: -1 })

/**
 * The text with `move.to` instead of `move.from` at these places. Undefined where that cannot be done by
 * changing these characters alone, as when the runtime is written with escapes.
 */
export function withRuntimes(
  text: string,
  places: readonly WrittenRuntime[],
  { from, to }: Move,
): string | undefined {
  let changed = text
  for (const { start, end } of places.toSorted((a, b) => b.start - a.start)) {
    const source = text.slice(start, end)
    if (source.split(from).length !== 2) return undefined
    changed = changed.slice(0, start) + source.replace(from, () => to) + changed.slice(end)
  }
  const [before, after] = [text, changed].map((one) => {
    const document = documentOf(one)
    if (document.errors.length > 0) return undefined
    // The same for both runtimes, wherever a runtime may be written.
    const plain = (key: string, value: unknown) => (key === KEY && value === to ? from : value)
    return JSON.stringify(valuesOf(document), plain)
  })
  return before === after ? changed : undefined
}
