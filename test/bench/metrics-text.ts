// A reader for the part of Prometheus' text format that benches need: counters and histograms, and differences of
// two scrapes.
import { get } from 'node:http'

/** The metrics of a process; `url` is its root. Rejects without a complete answer. */
export function scrape(url: string): Promise<string> {
  return new Promise((resolve, reject) => {
    get(`${url}/metrics`, (response) => {
      const pieces: Buffer[] = []
      response.on('data', (piece: Buffer) => pieces.push(piece))
      response.on('end', () => resolve(Buffer.concat(pieces).toString()))
      response.on('error', reject)
    }).on('error', reject)
  })
}

/** Every series of a metric: its labels and value. */
function series(text: string, name: string): Map<string, number> {
  const lines = text.matchAll(new RegExp(`^${name}(\\{[^}]*\\})? (\\S+)$`, 'gm'))
  return new Map([...lines].map((match) => [match[1] ?? '', Number(match[2])]))
}

/** The sum of a metric's series that have all of `wanted`, such as `type="URL"`. */
export function sum(text: string, name: string, ...wanted: string[]): number {
  return [...series(text, name)]
    .filter(([labels]) => wanted.every((one) => labels.includes(one)))
    .reduce((all, [, value]) => all + value, 0)
}

/** Growth of that sum between two scrapes. */
export function growth(before: string, after: string, name: string, ...wanted: string[]): number {
  return sum(after, name, ...wanted) - sum(before, name, ...wanted)
}

/** Upper bounds and cumulative counts of observations. */
export type Buckets = [bound: number, count: number][]

/** Counts of a histogram between two scrapes; `name` is that of its buckets. */
export function bucketGrowth(before: string, after: string, name: string): Buckets {
  const old = series(before, name)
  const bounds = new Map<number, number>()
  for (const [labels, value] of series(after, name)) {
    const bound = Number(/le="([^"]+)"/.exec(labels)?.[1]?.replace('+Inf', 'Infinity'))
    bounds.set(bound, (bounds.get(bound) ?? 0) + value - (old.get(labels) ?? 0))
  }
  return [...bounds].toSorted(([a], [b]) => a - b)
}

/** The bucket in which the quantile lies, of bounds in seconds: `≤ 5 ms`. */
export function quantile(buckets: Buckets, q: number): string {
  const all = buckets.at(-1)?.[1] ?? 0
  const bucket = buckets.find(([, count]) => count >= q * all)
  return bucket === undefined ? 'none' : `≤ ${bucket[0] * 1000} ms`
}
