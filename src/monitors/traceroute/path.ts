// Paths of traces: their hash, their loops, and how they change from run to run.
import { TRACEROUTE_LIMITS } from './definition.ts'
import { LeastRecentlyUsed } from '../../network/least-recently-used.ts'

/** Addresses of the hops in order; undefined for a hop without an answer. */
export type Path = readonly (string | undefined)[]

/** A hop without an answer, in paths as text. */
const SILENT = '*'

/** The path as shown: `10.0.0.1`, `*`, `10.0.2.1`. Hops without an answer at its end are left out. */
function shownPath(path: Path): string[] {
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
  const places = Map.groupBy(path.keys(), (at) => path[at])
  return [...places].flatMap(([address, ats]) =>
    address === undefined || ats.length < 2 ? [] : { address, hops: ats.map((at) => at + 1) },
  )
}

/** How the path of a run differs from the one before. */
export interface PathChange {
  pathChanged: boolean
  /** The path before, where it was another one. */
  previousPath?: string[]
}

/** Paths of the last runs. */
export class PathMemory {
  /** One string for each path, since there may be very many. */
  readonly #paths: LeastRecentlyUsed<string, string>

  constructor(max: number = TRACEROUTE_LIMITS.tracePathsMax) {
    this.#paths = new LeastRecentlyUsed(max)
  }

  /** Compares the path with the last one of `key` (monitor and address) and stores it. Undefined without a last one. */
  compare(key: string, path: Path, isReached: boolean): PathChange | undefined {
    const before = this.#paths.get(key)
    this.#paths.set(key, [isReached, ...path.map((address) => address ?? SILENT)].join(' '))
    if (before === undefined) return undefined
    const [wasReached, ...addresses] = before.split(' ')
    const previous = addresses.map((address) => (address === SILENT ? undefined : address))
    if (!differs(certainHops(previous, wasReached === 'true'), certainHops(path, isReached))) {
      return { pathChanged: false }
    }
    return { pathChanged: true, previousPath: shownPath(previous) }
  }
}

interface CertainHops {
  hops: Path
  /** Whether their number is that of the hops to the target. */
  isWhole: boolean
}

/** The hops whose distance is certain: behind one without an answer the target may be nearer. */
function certainHops(path: Path, isReached: boolean): CertainHops {
  const isWhole = isReached && (path.length < 2 || path.at(-2) !== undefined)
  return { hops: isReached && !isWhole ? path.slice(0, -1) : path, isWhole }
}

/** Whether a hop that answered both times has another address, or a target reached both times another distance. */
function differs(before: CertainHops, now: CertainHops): boolean {
  if (before.isWhole && now.isWhole && before.hops.length !== now.hops.length) return true
  return before.hops.some((address, at) => {
    const other = now.hops[at]
    return address !== undefined && other !== undefined && other !== address
  })
}
