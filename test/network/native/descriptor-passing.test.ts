// Aim: what is handed over with a descriptor comes whole, also where memory is collected in the middle of it.
import { closeSync } from 'node:fs'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { expect, onTestFinished, test } from 'vitest'
import {
  descriptorPair,
  receiveDescriptor,
  sendDescriptor,
} from '../../../src/network/native/descriptor-passing.ts'

const ROUNDS = 20

/** Collects, and puts something else where the collected had been, whenever an address was written. */
function collectAtEveryAddress(): void {
  setFlagsFromString('--expose-gc')
  const collect = runInNewContext('gc') as () => void
  const write = Buffer.prototype.writeBigUInt64LE
  const later: Buffer[] = []
  // A spy would remember each buffer, and with that keep it.
  Buffer.prototype.writeBigUInt64LE = function (this: Buffer, value: bigint, offset?: number) {
    const at = write.call(this, value, offset)
    collect()
    for (let n = 0; n < 50; n++) later[n] = Buffer.alloc(16, 255)
    return at
  }
  onTestFinished(() => {
    Buffer.prototype.writeBigUInt64LE = write
  })
}

test('a line and a descriptor come as they were sent', async () => {
  const [ours, theirs] = descriptorPair()
  collectAtEveryAddress()
  for (let round = 0; round < ROUNDS; round++) {
    sendDescriptor(theirs, Buffer.from(`line ${round}\n`), 1)
    const { bytes, descriptor } = await receiveDescriptor(ours, 4096)
    expect(bytes.toString()).toBe(`line ${round}\n`)
    expect(descriptor).toBeGreaterThan(2)
    closeSync(descriptor ?? -1)
  }
  for (const end of [ours, theirs]) closeSync(end)
})
