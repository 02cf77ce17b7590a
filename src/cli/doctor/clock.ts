// Compares this machine's clock with the platform's, by the Date of an answer, which has a resolution of 1 s.
import type { LinkAnswer } from '../../agent/platform/link.ts'
import type { Finding } from './finding.ts'

/** A larger offset affects certificates and logs; slots follow the platform's clock anyway. */
const OFF_MS_MAX = 5000

/** Compares the clocks. The offset lies between two bounds; the one nearer to zero counts. */
export function clockFinding({
  headers,
  sentAtMs,
  answeredAtMs,
}: Pick<LinkAnswer, 'headers' | 'sentAtMs' | 'answeredAtMs'>): Finding {
  const date = Date.parse(headers.date ?? '')
  if (Number.isNaN(date)) {
    return { id: 'clock', standing: 'absent', says: 'not compared: the answer has no Date' }
  }
  const wallAt = (monotonicMs: number) => Date.now() - (performance.now() - monotonicMs)
  // Bounds of the platform's clock minus this machine's.
  const [least, most] = [date - wallAt(answeredAtMs), date + 1000 - wallAt(sentAtMs)]
  const offMs = least > 0 ? least : Math.min(0, most)
  const facts = { leastMs: Math.round(least), mostMs: Math.round(most) }
  const within = Math.ceil(Math.max(Math.abs(least), Math.abs(most)) / 1000)
  if (Math.abs(offMs) <= OFF_MS_MAX) {
    const says = `within ${within} s of the platform’s`
    return { id: 'clock', standing: 'works', says, facts }
  }
  const side = offMs > 0 ? 'behind' : 'ahead of'
  const says = `${Math.round(Math.abs(offMs) / 1000)} s ${side} the platform’s`
  const fix = 'timedatectl set-ntp true  (on the host: containers have its clock)'
  return { id: 'clock', standing: 'warning', says, fix, facts }
}
