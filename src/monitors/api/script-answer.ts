// Answer of an API monitor in a tear-down script: the form passed to the script, and the changes applied from its
// result.
import { roundPhases } from '../../contract/schema/duration.ts'
import { grouped } from '../../scripts/api/request.ts'
import type { Pairs, ScriptResponse, TearDownDone } from '../../scripts/api/messages.ts'
import { bodyText, phasesOf } from '../http/observed.ts'
import type { Trip } from '../http/trip.ts'

/** The answer as a script is shown it; its body is cut where all would be larger than `bytesMax` as JSON. */
export function shownResponse(trip: Trip, bytesMax: number): ScriptResponse {
  const { response } = trip.answer
  const text = response === undefined ? '' : bodyText(trip)
  const headers = Object.entries(response?.headers ?? {}).flatMap(([name, value = []]) =>
    [value].flat().map((one): Pairs[number] => [name, one]),
  )
  const shown: ScriptResponse = {
    statusCode: response?.statusCode ?? 0,
    statusText: response?.statusMessage ?? '',
    body: text,
    headers: grouped(headers),
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

/** Under the names that Node's clients for HTTP have given them. */
function timesOf(trip: Trip): Pick<ScriptResponse, 'timings' | 'timingPhases'> {
  const phases = phasesOf(trip)
  const { dnsMs: dns = 0, tlsMs: tls = 0, downloadMs: download = 0, totalMs: total } = phases
  const tcp = (phases.connectMs ?? 0) + (phases.proxyMs ?? 0)
  const firstByte = (phases.sendMs ?? 0) + (phases.firstByteMs ?? 0)
  const connect = dns + tcp + tls
  const timings = { socket: 0, lookup: dns, connect, response: connect + firstByte, end: total }
  const timingPhases = { wait: 0, dns, tcp, tls, firstByte, download, total }
  roundPhases(timings)
  roundPhases(timingPhases)
  return { timings, timingPhases }
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
