// An interpreter of system call filters: the part of classic BPF that seccomp filters use.

/** The input of a filter. */
export interface FilteredCall {
  number: number
  audit: number
  arguments?: readonly bigint[]
}

/** The filter's return value (linux/seccomp.h). Throws where it runs past its end. */
export function filtered(
  program: Buffer,
  { number, audit, arguments: given = [] }: FilteredCall,
): number {
  const data = Buffer.alloc(64)
  data.writeUInt32LE(number >>> 0, 0)
  data.writeUInt32LE(audit, 4)
  given.forEach((value, index) => data.writeBigUInt64LE(BigInt.asUintN(64, value), 16 + 8 * index))
  let accumulator = 0
  for (let at = 0; at < program.length / 8; at++) {
    const code = program.readUInt16LE(8 * at)
    const [whenTrue, whenFalse] = [program[8 * at + 2] as number, program[8 * at + 3] as number]
    const value = program.readUInt32LE(8 * at + 4)
    const jump = (holds: boolean) => (at += holds ? whenTrue : whenFalse)
    if (code === 0x20) accumulator = data.readUInt32LE(value)
    else if (code === 0x54) accumulator = (accumulator & value) >>> 0
    else if (code === 0x15) jump(accumulator === value)
    else if (code === 0x35) jump(accumulator >= value)
    else if (code === 0x45) jump((accumulator & value) !== 0)
    else if (code === 0x06) return value
    else throw new Error(`an instruction that is not known: ${code}`)
  }
  throw new Error('the filter has no end')
}
