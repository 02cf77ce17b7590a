// Finds where a monitors file names the runtime of each monitor: in the monitor itself, the defaults, its group, an
// anchor or a merged mapping. Replaces it there and leaves every other character unchanged.
import { isDeepStrictEqual } from 'node:util'
import { type Document, isAlias, isMap, isScalar, isSeq, parseDocument, type Scalar } from 'yaml'
import type { Move } from './migration.ts'

/** One text in the file that names a runtime. */
export interface WrittenRuntime {
  /** Position in the text, in UTF-16 units, including quotes. */
  start: number
  end: number
  /** From 1. */
  line: number
  value: string
}

/** Finds the runtime of the monitor at that index of the file's list; undefined: none is written. */
export type FindRuntime = (index: number) => WrittenRuntime | undefined

const KEY = 'runtimeId'

/** Reads a text that `readMonitorsFile` has accepted. */
export function findRuntimes(text: string): FindRuntime {
  const document = documentOf(text)
  const top = document.contents
  const list = isSeq(top) ? top : valueOf(document, top, 'monitors')
  const defaults = isSeq(top) ? undefined : valueOf(document, top, 'defaults')
  const groups = isSeq(top) ? undefined : valueOf(document, top, 'groups')
  return (index) => {
    const monitor = isSeq(list) ? resolved(document, list.items[index]) : undefined
    // A field of the monitor's own hides the default, also where it is null.
    const own = valueOf(document, monitor, KEY) ?? valueOf(document, defaults, KEY)
    if (isScalar(own) && own.value !== null) return written(text, own)
    const group = valueOf(document, monitor, 'group') ?? valueOf(document, defaults, 'group')
    const key = isScalar(group) ? group.value : undefined
    const inherited = valueOf(document, valueOf(document, groups, key), KEY)
    return isScalar(inherited) && inherited.value !== null ? written(text, inherited) : undefined
  }
}

/** As monitors-file/yaml.ts reads it. */
function documentOf(text: string): Document {
  return parseDocument(text, {
    merge: true,
    prettyErrors: false,
    schema: 'core',
    logLevel: 'error',
  })
}

function resolved(document: Document, node: unknown): unknown {
  return isAlias(node) ? node.resolve(document) : node
}

/** The value of a key, that of merged mappings included; undefined where there is none. */
function valueOf(document: Document, node: unknown, key: unknown): unknown {
  const map = resolved(document, node)
  if (!isMap(map)) return undefined
  const named = (name: unknown) =>
    map.items.filter((pair) => isScalar(pair.key) && pair.key.value === name)
  const [own] = named(key)
  if (own !== undefined) return resolved(document, own.value)
  for (const { value } of map.items.filter(({ key: one }) => isScalar(one) && isMerge(one))) {
    const merged = resolved(document, value)
    // Of several, the first one that has the key (yaml.org/type/merge.html).
    for (const source of isSeq(merged) ? merged.items : [merged]) {
      const found = valueOf(document, source, key)
      if (found !== undefined) return found
    }
  }
  return undefined
}

/** A key in quotes merges nothing. */
function isMerge({ value, type }: Scalar): boolean {
  const isPlain = type === undefined || type === 'PLAIN'
  return isPlain && (value === '<<' || (typeof value === 'symbol' && value.description === '<<'))
}

function written(text: string, { range, value }: Scalar): WrittenRuntime | undefined {
  if (typeof value !== 'string' || range === undefined || range === null) return undefined
  const [start, end] = range
  return { start, end, value, line: text.slice(0, start).split('\n').length }
}

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
  return meansTheSame(text, changed, { from, to }) ? changed : undefined
}

/** Whether each value is unchanged, or the new runtime in place of the old one. */
function meansTheSame(before: string, after: string, { from, to }: Move): boolean {
  const [old, now] = [before, after].map((one) => documentOf(one))
  if (old === undefined || now === undefined || now.errors.length > 0) return false
  const [was, is] = [old, now].map((one): unknown => one.toJS({ maxAliasCount: -1 }))
  return isDeepStrictEqual(moved(was), moved(is))

  /** Maps both runtimes to one value, wherever a runtime may be written. */
  function moved(value: unknown): unknown {
    if (Array.isArray(value)) return value.map(moved)
    if (typeof value !== 'object' || value === null) return value
    return Object.fromEntries(
      Object.entries(value).map(([key, inner]) => {
        const isRuntime = key === KEY && (inner === from || inner === to)
        return [key, isRuntime ? from : moved(inner)]
      }),
    )
  }
}
