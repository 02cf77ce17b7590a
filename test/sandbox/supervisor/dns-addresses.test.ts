// Aim: out of what a name server answers the supervisor learns which name an address has, and what is cut short or
// of a strange kind teaches it nothing and harms nothing.
import { expect, test } from 'vitest'
import { namedAddresses } from '../../../src/sandbox/supervisor/dns-addresses.ts'

const header = (answers: number) => Buffer.from([0, 1, 0x81, 0x80, 0, 1, 0, answers, 0, 0, 0, 0])
const question = Buffer.from('\x04Shop\x04test\0\0\x01\0\x01', 'latin1')
const record = (type: number, data: number[]) =>
  Buffer.from([0xc0, 12, 0, type, 0, 1, 0, 0, 0, 9, 0, data.length, ...data])
const four = record(1, [192, 0, 2, 7])
const six = record(28, [0x20, 1, 0xd, 0xb8, ...Array<number>(11).fill(0), 5])
const alias = record(5, [1, 97, 0])

test('addresses of both families behind an alias are those of the name that was asked for', () => {
  expect(namedAddresses(Buffer.concat([header(3), question, alias, four, six]))).toEqual({
    name: 'shop.test',
    addresses: ['192.0.2.7', '2001:db8:0:0:0:0:0:5'],
  })
})

test('an answer that is cut short anywhere is none', () => {
  const whole = Buffer.concat([header(2), question, four, six])
  for (let length = 0; length < whole.length - 16; length++) {
    expect(namedAddresses(whole.subarray(0, length))).toBeUndefined()
  }
})

test('a name of other signs is nobody’s', () => {
  const odd = Buffer.from('\x04a b\n\0\0\x01\0\x01', 'latin1')
  expect(namedAddresses(Buffer.concat([header(1), odd, four]))).toBeUndefined()
})
