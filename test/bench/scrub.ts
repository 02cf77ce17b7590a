// Scrubbing with many and with long secrets: time to create a scrubber, bytes of text per second of CPU time, and
// blocking of the event loop. Fails over a limit.
import { generateKeyPairSync, randomBytes } from 'node:crypto'
import { createScrubber } from '../../src/agent/redaction/scrub.ts'
import { markdownTable } from './table.ts'

const SET_UP_MS_MAX = 20
const MB_PER_SECOND_MIN = 50
const DELAY_MS_MAX = 20

/** The fastest round counts: others use the machine as well. */
const ROUNDS = 100
/** The limit of a body or a console in a result. Characters. */
const TEXT_CHARS = 256 * 1024

const random = (bytes: number) => randomBytes(bytes).toString('base64')

const rsaKey = () =>
  generateKeyPairSync('rsa', {
    modulusLength: 4096,
    publicKeyEncoding: { type: 'spki', format: 'pem' },
    privateKeyEncoding: { type: 'pkcs8', format: 'pem' },
  }).privateKey

const SECRETS: Record<string, () => string[]> = {
  'a secret of 64 KiB': () => [random(49_152)],
  '30 RSA-4096 keys': () => Array.from({ length: 30 }, rsaKey),
  '2,000 short values': () => Array.from({ length: 2000 }, () => random(9)),
  '1,000 cookies': () =>
    Array.from({ length: 1000 }, () => `session_${'a'.repeat(52)}${random(30)}`),
}

const PROSE = 'The answer of the server was read to its end, and the page shows 25 items. '
const JSON_TEXT = `${JSON.stringify({ id: 17, name: 'a "name"', html: '<a href="/x?y=z&amp;w">\n' })},\n`

const TEXTS: Record<string, string> = {
  prose: PROSE.repeat(TEXT_CHARS / PROSE.length),
  JSON: JSON_TEXT.repeat(TEXT_CHARS / JSON_TEXT.length),
}

/** Prints the figures, and fails when one is over its limit. */
export function benchScrub(): Promise<void> {
  const rows: string[][] = []
  const broken: string[] = []
  for (const [name, make] of Object.entries(SECRETS)) {
    const secrets = make()
    const setUpMs = least(() => createScrubber({ secrets }).text(PROSE))
    const scrubber = createScrubber({ secrets })
    const row = [name, setUpMs.toFixed(1)]
    if (setUpMs > SET_UP_MS_MAX) broken.push(`${name}: set-up of ${setUpMs.toFixed(1)} ms`)
    for (const [kind, given] of Object.entries(TEXTS)) {
      const ms = least(() => scrubber.text(given))
      const speed = given.length / ms / 1000
      row.push(speed.toFixed(0), ms.toFixed(1))
      if (speed < MB_PER_SECOND_MIN) broken.push(`${name}: ${kind} at ${speed.toFixed(0)} MB/s`)
      if (ms > DELAY_MS_MAX) broken.push(`${name}: the event loop waits ${ms.toFixed(1)} ms`)
    }
    rows.push(row)
  }
  const head = [
    'secrets',
    'set-up ms',
    ...Object.keys(TEXTS).flatMap((one) => [`${one} MB/s`, 'ms']),
  ]
  process.stdout.write(`${markdownTable([head, ...rows])}\n`)
  return broken.length === 0 ? Promise.resolve() : Promise.reject(new Error(broken.join('; ')))
}

/** Milliseconds of the quickest round. */
function least(run: () => void): number {
  let best = Infinity
  for (let round = 0; round < ROUNDS; round++) {
    const began = performance.now()
    run()
    best = Math.min(best, performance.now() - began)
  }
  return best
}
