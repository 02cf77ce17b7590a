// Turns one JSON line of the log into one for people: time, level, message, fields, stack.
import { styleText } from 'node:util'

type Style = Parameters<typeof styleText>[0]

/** Colours a text, or leaves it as it is. */
export function paint(colour: boolean, style: Style, text: string): string {
  // The caller has looked at its stream; styleText would look at standard output.
  return colour ? styleText(style, text, { validateStream: false }) : text
}

const LEVEL_STYLES: Readonly<Record<string, Style>> = {
  trace: 'gray',
  debug: 'gray',
  info: 'green',
  warn: 'yellow',
  error: 'red',
  fatal: ['red', 'bold'],
}

interface Thrown {
  message?: unknown
  stack?: unknown
}

/** `12:34:56.789 INFO  message  key=value …`, in local time; a text that is not JSON stays as it is. */
export function prettyLine(line: string, colour: boolean): string {
  const record = parsed(line)
  if (record === undefined) return line
  const { level, time, msg, err, ...fields } = record
  const label = typeof level === 'string' ? level : 'info'
  const parts = [
    paint(colour, 'gray', clockTime(time)),
    paint(colour, LEVEL_STYLES[label] ?? 'green', label.toUpperCase().padEnd(5)),
    `${typeof msg === 'string' ? msg : ''}${paint(colour, 'gray', fieldTexts(fields))}`,
  ]
  return `${parts.join(' ').trimEnd()}${thrownText(err, msg, colour)}\n`
}

function parsed(line: string): Record<string, unknown> | undefined {
  try {
    const value: unknown = JSON.parse(line)
    const isRecord = typeof value === 'object' && value !== null && !Array.isArray(value)
    return isRecord ? (value as Record<string, unknown>) : undefined
  } catch {
    return undefined
  }
}

function clockTime(time: unknown): string {
  const date = new Date(typeof time === 'string' || typeof time === 'number' ? time : Number.NaN)
  if (Number.isNaN(date.getTime())) return '--:--:--.---'
  const two = (part: number) => String(part).padStart(2, '0')
  const day = [date.getHours(), date.getMinutes(), date.getSeconds()].map(two).join(':')
  return `${day}.${String(date.getMilliseconds()).padStart(3, '0')}`
}

function fieldTexts(fields: Record<string, unknown>): string {
  return Object.entries(fields)
    .map(([key, value]) => `  ${key}=${valueText(value)}`)
    .join('')
}

function valueText(value: unknown): string {
  const plain = typeof value === 'string' && value !== '' && !/[\s"=]/.test(value)
  return plain ? value : (JSON.stringify(value) ?? 'undefined')
}

function thrownText(thrown: unknown, message: unknown, colour: boolean): string {
  if (typeof thrown !== 'object' || thrown === null) return ''
  const { stack, message: own } = thrown as Thrown
  const text = typeof stack === 'string' ? stack : typeof own === 'string' ? own : ''
  if (text === '' || text === message) return ''
  const indented = text.split('\n').map((one) => `    ${one.trim()}`)
  return `\n${paint(colour, 'gray', indented.join('\n'))}`
}
