// The path of a trace as one value: its hash, how it differs from the path of the run before, and where
// it goes round in circles.
import { TRACEROUTE_LIMITS } from './definition.ts'
import { LeastRecentlyUsed } from '../../network/least-recently-used.ts'

/** Addresses of the hops in order; undefined for one that was silent. */
export type Path = readonly (string | undefined)[]

/** A silent hop, in paths as text. */
const SILENT = '*'

/** The path as it is shown: `10.0.0.1`, `*`, `10.0.2.1`. Silent hops at its end are not part of it. */
export function shownPath(path: Path): string[] {
  const last = path.findLastIndex((address) => address !== undefined)
  return path.slice(0, last + 1).map((address) => address ?? SILENT)
}

/**
 * The hash of the path: 32-bit FNV-1a over the addresses of the hops in order, parted by blanks, `*` for a
 * silent one; silent hops at the end do not count. The same path gives the same number on every agent.
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

/** The addresses that stand in the path more than once, in the order of their first hop. */
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

/** What is remembered of it: one text, since there may be very many. */
function remember({ path, reached }: LastRun): string {
  const words = path.map((address) => address ?? SILENT)
  return [reached ? 'reached' : 'unreached', ...words].join(' ')
}

function recall(remembered: string | undefined): LastRun | undefined {
  if (remembered === undefined) return undefined
  const [end, ...words] = remembered.split(' ')
  const path = words.map((word) => (word === SILENT ? undefined : word))
  return { path, reached: end === 'reached' }
}

/** How the path of a run differs from the one before. */
export interface PathChange {
  pathChanged: boolean
  /** The path before, where it was another one. */
  previousPath?: string[]
}

/** The paths of the last runs. */
export interface PathMemory {
  /**
   * Compares with the last path of the same monitor to the same address, which `key` names, and remembers
   * the new one. Undefined when there is none to compare with. A silent hop is like any: only hops that
   * answered both times, and the distance of a target that was reached both times, can show that the path
   * has changed.
   */
  compare(key: string, now: LastRun): PathChange | undefined
  /** The last path. */
  last(key: string): LastRun | undefined
}

/** Makes an empty memory, for at most so many paths. */
export function createPathMemory(max: number = TRACEROUTE_LIMITS.tracePathsMax): PathMemory {
  const memory = new LeastRecentlyUsed<string, string>(max)
  return {
    compare(key, now) {
      const before = recall(memory.get(key))
      if (before === undefined || differs(before, now)) {
        memory.set(key, remember(now))
        if (before === undefined) return undefined
        return { pathChanged: true, previousPath: shownPath(before.path) }
      }
      memory.set(key, remember(joined(before, now)))
      return { pathChanged: false }
    },
    last: (key) => recall(memory.get(key)),
  }
}

/** Both together: what was silent now keeps its address, or a change behind two silences would not show. */
function joined(before: LastRun, now: LastRun): LastRun {
  const length = joinedLength(before, now)
  const path = Array.from({ length }, (_, at) => now.path[at] ?? before.path[at])
  return { path, reached: now.reached || before.reached }
}

function joinedLength(before: LastRun, now: LastRun): number {
  if (isDistanceKnown(now)) return now.path.length
  if (isDistanceKnown(before)) return before.path.length
  if (now.reached && before.reached) return Math.min(now.path.length, before.path.length)
  if (now.reached || before.reached) return (now.reached ? now : before).path.length
  return Math.max(now.path.length, before.path.length)
}

/** Behind a silent hop the target may be nearer than it seems: the silence may have been its own. */
function isDistanceKnown({ path, reached }: LastRun): boolean {
  return reached && (path.length === 1 || path.at(-2) !== undefined)
}

function differs(before: LastRun, now: LastRun): boolean {
  const [then, here] = [before.path, now.path]
  const isKnown = isDistanceKnown(before) && isDistanceKnown(now)
  if (isKnown && then.length !== here.length) return true
  // Where a distance is in doubt, the target's place says nothing about that of another.
  const length = Math.min(comparable(before), comparable(now))
  for (let at = 0; at < length; at++) {
    if (then[at] !== undefined && here[at] !== undefined && then[at] !== here[at]) return true
  }
  return false
}

/** How many hops of the path stand where they are said to stand. */
function comparable(run: LastRun): number {
  return run.reached && !isDistanceKnown(run) ? run.path.length - 1 : run.path.length
}
