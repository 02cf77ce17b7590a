// Forms of a DNS answer for assertions and results.
import { DNS_LIMITS } from './definition.ts'
import type { DnsMessage, DnsRecord } from '../../network/dns/message.ts'

/** Value of TEXT_ANSWER: the data of each record of the answer, a line each. */
export function answerText({ Answer }: DnsMessage): string {
  return inNaturalOrder(Answer)
    .map(({ data }) => data)
    .join('\n')
}

/** Value of JSON_ANSWER. */
export function answerJson(message: DnsMessage): string {
  return JSON.stringify({ ...message, Answer: inNaturalOrder(message.Answer) })
}

let collator: Intl.Collator | undefined

/**
 * Sorts the records of each set by their data, numbers by their value: many servers rotate them. The order
 * of the sets stays, so that a chain of aliases can be followed.
 */
function inNaturalOrder(records: readonly DnsRecord[]): readonly DnsRecord[] {
  if (records.length < 2) return records
  const sets = new Map<string, DnsRecord[]>()
  for (const record of records) {
    const key = `${record.type} ${record.class ?? ''} ${record.name.toLowerCase()}`
    const set = sets.get(key)
    if (set === undefined) sets.set(key, [record])
    else set.push(record)
  }
  collator ??= new Intl.Collator('en', { numeric: true })
  const { compare } = collator
  return [...sets.values()].flatMap((set) => set.toSorted((a, b) => compare(a.data, b.data)))
}

const SECTIONS = ['Answer', 'Authority', 'Additional'] as const

/** Number of records of each section. */
export interface SectionCounts {
  answers: number
  authorities: number
  additionals: number
}

/** Counts them. */
export function countsOf({ Answer, Authority, Additional }: DnsMessage): SectionCounts {
  return {
    answers: Answer.length,
    authorities: Authority.length,
    additionals: Additional.length,
  }
}

/** The message for a result: of a large one the beginning, and the number of omitted records. */
export function shownMessage(message: DnsMessage): DnsMessage & { leftOut?: number } {
  let left = DNS_LIMITS.dnsShownCharactersMax
  let leftOut = 0
  const shown = { ...message }
  for (const section of SECTIONS) {
    const records = message[section]
    let fits = 0
    for (const record of records) {
      // The fields repeat the data.
      left -= record.name.length + record.data.length * (record.fields === undefined ? 1 : 2) + 40
      if (left < 0) break
      fits++
    }
    if (fits === records.length) continue
    shown[section] = records.slice(0, fits)
    leftOut += records.length - fits
  }
  return leftOut === 0 ? message : { ...shown, leftOut }
}
