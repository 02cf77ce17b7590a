// The secrets of a run as the needles that are looked for in decoded views of a text: few spellings of each.
import { SECRET_CHARS_MIN } from '../../contract/definition-secrets.ts'
import { SecretSet } from '../../contract/secret-set.ts'
import { LIMITS } from '../../contract/versions.ts'
import { type Needle, NEEDLE_BYTES_MIN } from './needle-index.ts'
import { mayBeEscaped, plainView, withoutEscapes } from './text-views.ts'

/** Rounds of escaping that are decoded: JSON in JSON in a URL, and what the secret itself looks like. */
export const ESCAPE_ROUNDS_MAX = 6

/** Shorter file names are parts of ordinary text. */
const NAME_CHARS_MIN = 8

/** There are more values than a run may know. The message says nothing about them. */
export class TooManySecrets extends Error {
  constructor() {
    super('there are more secrets than a run may know')
    this.name = 'TooManySecrets'
  }
}

/**
 * Needles for secrets. Those under 3 characters are ignored; of those over `secretCharactersMax`, the first part is
 * taken. Throws TooManySecrets.
 */
export function needlesOf(secrets: Iterable<string>): Needle[] {
  const values = new SecretSet(secrets)
  if (values.isOver) throw new TooManySecrets()
  const needles: Needle[] = []
  for (const secret of values) {
    if (secret.length < SECRET_CHARS_MIN) continue
    for (const value of withLines(secret)) addNeedles(value, needles)
  }
  return needles
}

/** Shorter lines of a secret, such as the last one of a key, stand in other texts as well. */
const SECRET_LINE_CHARS_MIN = 8

/** A secret of several lines and its lines, which a console prints separately; not the header and footer of PEM. */
function withLines(secret: string): string[] {
  if (!secret.includes('\n')) return [secret]
  const lines = secret.split('\n').map((line) => line.trim())
  const own = lines.filter((one) => one.length >= SECRET_LINE_CHARS_MIN && !one.startsWith('-----'))
  return [secret, ...own]
}

function addNeedles(secret: string, needles: Needle[]): void {
  const isOpen = secret.length > LIMITS.secretCharactersMax
  const part = isOpen ? firstPart(secret) : secret
  const add = (bytes: string) => needles.push({ bytes, isOpen })
  if (PLAIN.test(part)) {
    add(part)
    return
  }
  const utf8 = Buffer.from(part)
  add(utf8.toString('latin1'))
  const canonical = Buffer.from(withoutAllEscapes(utf8)).toString('latin1')
  add(canonical)
  // In a form, a space is a plus.
  if (canonical.includes(' ')) add(canonical.replaceAll(' ', '+'))
  // What is too short once it is decoded is looked for as it is encoded.
  if (canonical.length < NEEDLE_BYTES_MIN) for (const one of encoded(part)) add(one)
  if (utf8.length !== part.length) {
    if (/^[\0-\u00FF]*$/.test(part)) add(part)
    else for (const one of utf16Of(part)) add(one)
  }
  for (const name of namesOf(part)) add(name)
}

/** Written alike in nearly every encoding that is decoded here. */
const PLAIN = /^[A-Za-z0-9]+$/

function firstPart(secret: string): string {
  const part = secret.slice(0, LIMITS.secretCharactersMax)
  return /[\uD800-\uDBFF]$/.test(part) ? part.slice(0, -1) : part
}

function withoutAllEscapes(bytes: Uint8Array): Uint8Array {
  let view = plainView(bytes)
  for (let round = 0; round < ESCAPE_ROUNDS_MAX && mayBeEscaped(view); round++) {
    const next = withoutEscapes(view)
    if (next === undefined) break
    view = next
  }
  return view.bytes
}

function encoded(secret: string): string[] {
  const html = secret
    .replaceAll('&', '&amp;')
    .replaceAll('<', '&lt;')
    .replaceAll('>', '&gt;')
    .replaceAll('"', '&quot;')
  const url = encodeURIComponent(secret.toWellFormed())
  const form = new URLSearchParams({ a: secret }).toString().slice(2)
  const all = [html, url, url.toLowerCase(), form, JSON.stringify(secret).slice(1, -1)]
  return all.map((one) => Buffer.from(one).toString('latin1'))
}

/** Little end first, and big end first. */
function utf16Of(secret: string): string[] {
  const little = Buffer.from(secret, 'utf16le')
  return [little, Buffer.from(little).swap16()].map((one) => one.toString('latin1'))
}

/** As names of files have it, which are made from titles. */
function namesOf(secret: string): string[] {
  const name = secret.replaceAll(/[^A-Za-z0-9]+/g, '-').replaceAll(/^-|-$/g, '')
  if (name.length < NAME_CHARS_MIN) return []
  const joinedText = secret.replaceAll(/\W+/g, '-').replaceAll(/^-|-$/g, '')
  return [name, name.replaceAll('-', '_'), joinedText]
}
