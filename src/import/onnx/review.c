#include "import/onnx/onnx.h"
tercel_status tercel_onnx_review(tercel_onnx *o, tercel_error *err) { (void)o; (void)err; return TERCEL_OK; }
