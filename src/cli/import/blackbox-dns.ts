// Options of blackbox_exporter's DNS prober.
import { FAMILY, TLS_CONFIG } from './blackbox-http.ts'
import * as z from 'zod'
import {
  formed,
  only,
  type Option,
  type Options,
  refuse,
  silent,
  TEXT,
  TEXTS,
  toRequest,
  within,
} from './drafts.ts'
import { fromGoRegex, GO_REGEX, matching } from './values.ts'

const rrs = (patternsOf: (regex: string) => [string, boolean]): Option => {
  return formed(TEXTS, (patterns, around) => {
    const { all, draft, path } = around
    for (const pattern of patterns) {
      const regex = fromGoRegex(pattern)
      if (regex === undefined) return refuse(around, GO_REGEX)
      if (/\\[st]|\t|\^/.test(regex)) {
        return refuse(around, 'TEXT_ANSWER has the data of records, without name, TTL and type')
      }
      all.notes.push({ path, message: 'is compared with the data of records alone' })
      draft.assertions.push(matching('TEXT_ANSWER', ...patternsOf(regex)))
    }
  })
}

/** Lines that the expression does not match. */
const otherLines = (regex: string) => `(?m:^(?!.*(?:${regex})).+$)`
const SECTIONS = 'TEXT_ANSWER has the answer section alone; write JSON_ANSWER assertions'

/** Options of the DNS prober. */
export const DNS: Options = {
  ...FAMILY,
  transport_protocol: formed(TEXT, (value, { draft }) => {
    draft.request['protocol'] ??= value.toUpperCase()
  }),
  dns_over_tls: formed(z.boolean(), (value, { draft }) => {
    if (value) draft.request['protocol'] = 'DOT'
  }),
  tls_config: within(TLS_CONFIG),
  query_name: toRequest('query'),
  query_type: silent,
  query_class: toRequest('recordClass'),
  recursion_desired: toRequest('recursionDesired'),
  valid_rcodes: formed(TEXTS.min(1), (codes, { draft }) => {
    const regex = `^(?:${codes.join('|')})$`
    const one = { comparison: 'EQUALS', target: codes[0] }
    const any = { comparison: 'NOT_NULL', regex }
    draft.assertions.push({ source: 'RESPONSE_CODE', ...(codes.length === 1 ? one : any) })
  }),
  validate_answer_rrs: within({
    fail_if_matches_regexp: rrs((regex) => [regex, false]),
    fail_if_none_matches_regexp: rrs((regex) => [regex, true]),
    fail_if_not_matches_regexp: rrs((regex) => [otherLines(regex), false]),
    fail_if_all_match_regexp: rrs((regex) => [otherLines(regex), true]),
  }),
  validate_authority_rrs: only([{}], SECTIONS),
  validate_additional_rrs: only([{}], SECTIONS),
}
