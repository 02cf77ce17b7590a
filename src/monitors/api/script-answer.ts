// Answer of an API monitor in a tear-down script: the form passed to the script, and the changes applied from its
// result.
import type { IncomingHttpHeaders } from 'node:http'
import { toMicroseconds } from '../../contract/schema/duration.ts'
import { grouped } from '../../scripts/api/request.ts'
import type { Pairs, ScriptResponse, TearDownDone } from '../../scripts/api/messages.ts'
import { bodyText } from '../http/observed.ts'
import type { Phases, Trip } from '../http/trip.ts'

/** The answer as a script is shown it; its body is cut where all would be larger than `bytesMax` as JSON. */
export function shownResponse(trip: Trip, bytesMax: number): ScriptResponse {
  const { response } = trip.answer
  const text = response === undefined ? '' : bodyText(trip)
  const shown: ScriptResponse = {
    statusCode: response?.statusCode ?? 0,
    statusText: response?.statusMessage ?? '',
    body: text,
    headers: response === undefined ? {} : headersOf(response.headers),
    ...timesOf(trip),
  }
  const room = bytesMax - Buffer.byteLength(JSON.stringify({ ...shown, body: '' }))
  if (text.length <= room && Buffer.byteLength(JSON.stringify(text)) <= room) return shown
  return { ...shown, body: beginning(text, room), bodyTruncated: true }
}

/** As much of the text as fits, found by halves: how long it is as JSON depends on what is in it. */
function beginning(text: string, bytesMax: number): string {
  let cut = text.slice(0, Math.max(0, bytesMax))
  while (cut !== '' && Buffer.byteLength(JSON.stringify(cut)) > bytesMax) {
    cut = cut.slice(0, Math.floor(cut.length / 2))
  }
  return cut.toWellFormed()
}

function headersOf(headers: IncomingHttpHeaders): Record<string, string | string[]> {
  const pairs = Object.entries(headers).flatMap(([name, value]) =>
    [value ?? []].flat().map((one): Pairs[number] => [name, one]),
  )
  return grouped(pairs)
}

/** Under the names that Node's clients for HTTP have given them. */
function timesOf({ hops, totalMs }: Trip): Pick<ScriptResponse, 'timings' | 'timingPhases'> {
  const sum = (name: keyof Phases) => hops.reduce((all, { phases }) => all + (phases[name] ?? 0), 0)
  const dns = sum('dnsMs')
  const tcp = sum('connectMs') + sum('proxyMs')
  const tls = sum('tlsMs')
  const firstByte = sum('sendMs') + sum('firstByteMs')
  const download = sum('downloadMs')
  const connect = dns + tcp + tls
  return {
    timings: rounded({
      socket: 0,
      lookup: dns,
      connect,
      response: connect + firstByte,
      end: totalMs,
    }),
    timingPhases: rounded({ wait: 0, dns, tcp, tls, firstByte, download, total: totalMs }),
  }
}

function rounded(times: Record<string, number>): Record<string, number> {
  return Object.fromEntries(Object.entries(times).map(([name, ms]) => [name, toMicroseconds(ms)]))
}

/** Makes of the answer what the script made of it: assertions and people see that. */
export function changeAnswer(trip: Trip, shown: ScriptResponse, done: TearDownDone): void {
  const { answer } = trip
  const { response } = answer
  if (response === undefined) return
  const { statusCode, body, headers } = done.response
  response.statusCode = statusCode
  const lower = headers.map(([name, value]): Pairs[number] => [name.toLowerCase(), value])
  response.headers = grouped(lower)
  if (body !== shown.body) answer.changedText = body
}
