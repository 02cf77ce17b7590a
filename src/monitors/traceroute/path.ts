// Path of a trace: its hash, its difference from the path of the run before, and its loops.
import { TRACEROUTE_LIMITS } from './definition.ts'
import { LeastRecentlyUsed } from '../../network/least-recently-used.ts'

/** Addresses of the hops in order; undefined for a hop without an answer. */
export type Path = readonly (string | undefined)[]

/** A hop without an answer, in paths as text. */
const SILENT = '*'

/** The path as shown: `10.0.0.1`, `*`, `10.0.2.1`. Hops without an answer at its end are left out. */
export function shownPath(path: Path): string[] {
  const last = path.findLastIndex((address) => address !== undefined)
  return path.slice(0, last + 1).map((address) => address ?? SILENT)
}

/**
 * Hash of the path: 32-bit FNV-1a over the addresses of the hops in order, separated by blanks, `*` for a
 * hop without an answer; such hops at the end are left out. All agents compute the same number for a path.
 */
export function pathHash(path: Path): number {
  let hash = 0x811c9dc5
  for (const byte of Buffer.from(shownPath(path).join(' '))) {
    hash = Math.imul(hash ^ byte, 0x01000193) >>> 0
  }
  return hash
}

/** An address that answered at more than one distance. */
export interface Loop {
  address: string
  /** Distances at which it answered. */
  hops: number[]
}

/** Addresses that occur more than once in the path, in the order of their first hop. */
export function loopsOf(path: Path): Loop[] {
  const places = new Map<string, number[]>()
  for (const [index, address] of path.entries()) {
    if (address === undefined) continue
    const hops = places.get(address)
    if (hops === undefined) places.set(address, [index + 1])
    else hops.push(index + 1)
  }
  return [...places]
    .filter(([, hops]) => hops.length > 1)
    .map(([address, hops]) => ({ address, hops }))
}

/** The last run of a monitor. */
export interface LastRun {
  path: Path
  reached: boolean
}

/** The stored form: one string, since there may be very many paths. */
function serialize({ path, reached }: LastRun): string {
  const addresses = path.map((address) => address ?? SILENT)
  return [reached ? 'reached' : 'unreached', ...addresses].join(' ')
}

function parse(remembered: string | undefined): LastRun | undefined {
  if (remembered === undefined) return undefined
  const [end, ...addresses] = remembered.split(' ')
  const path = addresses.map((address) => (address === SILENT ? undefined : address))
  return { path, reached: end === 'reached' }
}

/** How the path of a run differs from the one before. */
export interface PathChange {
  pathChanged: boolean
  /** The path before, where it was another one. */
  previousPath?: string[]
}

/** Paths of the last runs. */
export interface PathMemory {
  /**
   * Compares the path with the last one of `key` (monitor and address) and stores it. Undefined without a
   * last path. A hop without an answer matches any: only hops that answered both times, and the distance of
   * a target that was reached both times, can show a change.
   */
  compare(key: string, now: LastRun): PathChange | undefined
  /** The last path. */
  last(key: string): LastRun | undefined
}

/** Makes an empty memory for at most `max` paths. */
export function createPathMemory(max: number = TRACEROUTE_LIMITS.tracePathsMax): PathMemory {
  const memory = new LeastRecentlyUsed<string, string>(max)
  return {
    compare(key, now) {
      const before = parse(memory.get(key))
      if (before === undefined || differs(before, now)) {
        memory.set(key, serialize(now))
        if (before === undefined) return undefined
        return { pathChanged: true, previousPath: shownPath(before.path) }
      }
      memory.set(key, serialize(merged(before, now)))
      return { pathChanged: false }
    },
    last: (key) => parse(memory.get(key)),
  }
}

/** Merges both paths: a hop without an answer now keeps its address, so that a later change shows. */
function merged(before: LastRun, now: LastRun): LastRun {
  const length = mergedLength(before, now)
  const path = Array.from({ length }, (_, at) => now.path[at] ?? before.path[at])
  return { path, reached: now.reached || before.reached }
}

function mergedLength(before: LastRun, now: LastRun): number {
  if (isDistanceKnown(now)) return now.path.length
  if (isDistanceKnown(before)) return before.path.length
  if (now.reached && before.reached) return Math.min(now.path.length, before.path.length)
  if (now.reached || before.reached) return (now.reached ? now : before).path.length
  return Math.max(now.path.length, before.path.length)
}

/** Whether the distance is certain: behind a hop without an answer the target may be nearer. */
function isDistanceKnown({ path, reached }: LastRun): boolean {
  return reached && (path.length === 1 || path.at(-2) !== undefined)
}

function differs(before: LastRun, now: LastRun): boolean {
  const [then, here] = [before.path, now.path]
  const isKnown = isDistanceKnown(before) && isDistanceKnown(now)
  if (isKnown && then.length !== here.length) return true
  // With an uncertain distance the target's position is not compared.
  const length = Math.min(comparable(before), comparable(now))
  for (let at = 0; at < length; at++) {
    if (then[at] !== undefined && here[at] !== undefined && then[at] !== here[at]) return true
  }
  return false
}

/** Number of hops whose position is certain. */
function comparable(run: LastRun): number {
  return run.reached && !isDistanceKnown(run) ? run.path.length - 1 : run.path.length
}
